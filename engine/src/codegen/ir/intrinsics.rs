//! Instructions of NVIDIA's GPUs that CubeCL has no word for.
//!
//! They are written as comments that hold a call; the text makes them calls, and their definitions stand before the kernel.

use crate::codegen::ir::builder::{Code, F32};
use cubecl_core::ir::{Instruction, NonSemantic, Type, Variable, VariableKind};
use std::fmt::Write;

/// What the comment of a call starts with.
const CALL: &str = "call ";

/// An instruction by the name of the function that is it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intrinsic {
    /// The larger of two floats, NaN if either is NaN.
    Largest,
    /// The smaller of two floats, NaN if either is NaN.
    Smallest,
    /// 2ˣ to 2⁻²² of itself; below 2⁻¹²⁶ it is 0.
    Exp2,
    /// log₂ x to 2⁻²² absolutely, or to 2⁻²² of itself beyond 2; subnormal numbers count as 0.
    Log2,
    /// Adds four floats to four in memory, each at once; they start at a multiple of 16 bytes.
    AddFour,
    /// Starts to copy 16 bytes to shared memory.
    CopyAsync,
    /// Waits for what this thread copies.
    AwaitCopies,
}

impl Intrinsic {
    const ALL: [Intrinsic; 7] = [
        Intrinsic::Largest,
        Intrinsic::Smallest,
        Intrinsic::Exp2,
        Intrinsic::Log2,
        Intrinsic::AddFour,
        Intrinsic::CopyAsync,
        Intrinsic::AwaitCopies,
    ];

    fn name(self) -> &'static str {
        match self {
            Intrinsic::Largest => "largest",
            Intrinsic::Smallest => "smallest",
            Intrinsic::Exp2 => "rough_exp2",
            Intrinsic::Log2 => "rough_log2",
            Intrinsic::AddFour => "add_four",
            Intrinsic::CopyAsync => "copy_async",
            Intrinsic::AwaitCopies => "await_copies",
        }
    }

    fn definition(self) -> &'static str {
        match self {
            Intrinsic::Largest => {
                "float largest(float a, float b) {\n\
                 float x;\n\
                 asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(x) : \"f\"(a), \"f\"(b));\n\
                 return x;\n}"
            }
            Intrinsic::Smallest => {
                "float smallest(float a, float b) {\n\
                 float x;\n\
                 asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(x) : \"f\"(a), \"f\"(b));\n\
                 return x;\n}"
            }
            Intrinsic::Exp2 => {
                "float rough_exp2(float x) {\n\
                 asm(\"ex2.approx.ftz.f32 %0, %0;\" : \"+f\"(x));\n\
                 return x;\n}"
            }
            Intrinsic::Log2 => {
                "float rough_log2(float x) {\n\
                 asm(\"lg2.approx.ftz.f32 %0, %0;\" : \"+f\"(x));\n\
                 return x;\n}"
            }
            Intrinsic::AddFour => {
                "void add_four(float *place, float a, float b, float c, float d) {\n\
                 asm volatile(\"red.global.add.v4.f32 [%0], {%1, %2, %3, %4};\" :: \"l\"(place), \"f\"(a), \"f\"(b), \
                 \"f\"(c), \"f\"(d) : \"memory\");\n}"
            }
            Intrinsic::CopyAsync => {
                "void copy_async(void *to, const void *from) {\n\
                 asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" :: \
                 \"r\"((unsigned int)__cvta_generic_to_shared(to)), \"l\"(from) : \"memory\");\n}"
            }
            Intrinsic::AwaitCopies => {
                "void await_copies() {\n\
                 asm volatile(\"cp.async.wait_all;\" ::: \"memory\");\n}"
            }
        }
    }
}

/// An argument of a call.
pub enum Word {
    /// A value.
    Value(Variable),
    /// Where an element of an array lies.
    Place(Variable, Variable),
}

impl Code<'_> {
    /// The value of a function of two floats or one.
    pub fn call(&mut self, intrinsic: Intrinsic, arguments: &[Variable]) -> Variable {
        let words: Vec<Word> = arguments.iter().map(|&x| Word::Value(x)).collect();
        let words = self.words(&words);
        let out = self.scope.create_local(Type::scalar(F32)).consume();
        let name = name(out).unwrap_or_else(|| crate::bug!("a local without a name"));
        self.comment(format!("{CALL}const float {name} = {}({words});", intrinsic.name()));
        out
    }

    /// What is done, not computed.
    pub fn perform(&mut self, intrinsic: Intrinsic, arguments: &[Word]) {
        let words = self.words(arguments);
        self.comment(format!("{CALL}{}({words});", intrinsic.name()));
    }

    fn comment(&mut self, content: String) {
        self.scope.register(Instruction::no_out(NonSemantic::Comment { content }));
    }

    fn words(&mut self, words: &[Word]) -> String {
        let mut text = String::new();
        for (i, word) in words.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            let word = match *word {
                Word::Value(x) => self.named(x),
                Word::Place(array, index) => format!("&{}[{}]", self.named(array), self.named(index)),
            };
            let _ = write!(text, "{separator}{word}");
        }
        text
    }

    /// What a variable is called in the text; constants and the like get a name.
    fn named(&mut self, x: Variable) -> String {
        name(x).unwrap_or_else(|| {
            let local = self.snapshot(x);
            name(local).unwrap_or_else(|| crate::bug!("a local without a name"))
        })
    }
}

fn name(x: Variable) -> Option<String> {
    Some(match x.kind {
        VariableKind::LocalConst { id } => format!("l_{id}"),
        VariableKind::LocalMut { id } => format!("l_mut_{id}"),
        VariableKind::GlobalInputArray(id) | VariableKind::GlobalOutputArray(id) => format!("buffer_{id}"),
        VariableKind::SharedArray { id, .. } => format!("shared_memory_{id}"),
        _ => return None,
    })
}

/// The text with calls for the comments that hold them, and with the definitions of what is called.
pub fn with_calls(text: &str) -> String {
    let start = format!("// {CALL}");
    if !text.contains(&start) {
        return text.to_string();
    }
    let lines = text.split('\n').map(|line| line.strip_prefix(&start).unwrap_or(line));
    let text = lines.collect::<Vec<_>>().join("\n");
    let used =
        Intrinsic::ALL.into_iter().filter(|intrinsic| text.contains(&format!("{}(", intrinsic.name())));
    let definitions: Vec<String> =
        used.map(|intrinsic| format!("__device__ __forceinline__ {}\n", intrinsic.definition())).collect();
    let kernel = text.find("extern \"C\"").unwrap_or(0);
    let (before, after) = text.split_at(kernel);
    // A compiler for another processor brings its own.
    format!("{before}#ifdef __CUDA_ARCH__\n{}#endif\n\n{after}", definitions.concat())
}
