//! Instructions of NVIDIA's GPUs that CubeCL lacks.
//!
//! A call is emitted as a comment. The printer turns the comment into code and puts the function's definition
//! before the kernel.

use crate::codegen::ir::builder::{Code, F32, U64};
use crate::codegen::ir::ptx::{self, WarpgroupProduct};
use crate::device_model::TensorCores;
use cubecl_core::ir::{ElemType, FloatKind, Instruction, NonSemantic, Type, Variable, VariableKind};
use std::fmt::{Display, Write};

/// The start of a comment that holds a call.
const CALL: &str = "call ";

/// An instruction, called through a function of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intrinsic {
    /// The larger of two floats, NaN if either is NaN.
    Largest,
    /// The smaller of two floats, NaN if either is NaN.
    Smallest,
    /// 2ˣ with a relative error of 2⁻²²; results below 2⁻¹²⁶ are 0.
    Exp2,
    /// log₂ x with an absolute error of 2⁻²², or a relative one for results beyond 2. Subnormal operands count as
    /// 0.
    Log2,
    /// Adds four floats to memory, each atomically; the address is a multiple of 16 bytes.
    AddFour,
    /// Starts an asynchronous copy of 16 bytes to shared memory.
    CopyAsync,
    /// Waits for this thread's asynchronous copies.
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
    /// The address of an element of an array.
    Place(Variable, Variable),
}

impl Code<'_> {
    /// Calls a function of one or two floats.
    pub(crate) fn call(&mut self, intrinsic: Intrinsic, arguments: &[Variable]) -> Variable {
        let words: Vec<Word> = arguments.iter().map(|&x| Word::Value(x)).collect();
        let words = self.words(&words);
        let out = self.scope.create_local(Type::scalar(F32)).consume();
        let name = name(out).unwrap_or_else(|| crate::bug!("a local without a name"));
        self.comment(format!("{CALL}const float {name} = {}({words});", intrinsic.name()));
        out
    }

    /// Calls an instruction that has no result.
    pub(crate) fn perform(&mut self, intrinsic: Intrinsic, arguments: &[Word]) {
        let words = self.words(arguments);
        self.comment(format!("{CALL}{}({words});", intrinsic.name()));
    }

    /// A line of CUDA C++.
    pub(crate) fn line(&mut self, text: impl Display) {
        self.comment(format!("{CALL}{text}"));
    }

    /// Lines of CUDA C++.
    pub(crate) fn lines(&mut self, text: &str) {
        text.lines().for_each(|line| self.line(line));
    }

    /// The value of an expression in CUDA C++.
    pub(crate) fn expression(&mut self, elem: ElemType, text: impl Display) -> Variable {
        let out = self.scope.create_local(Type::scalar(elem)).consume();
        let name = name(out).unwrap_or_else(|| crate::bug!("a local without a name"));
        let ty = type_name(elem);
        self.line(format_args!("const {ty} {name} = {text};"));
        out
    }

    /// Element `i` of the vector of `elem` at an address.
    pub(crate) fn component_at(&mut self, elem: ElemType, address: impl Display, i: usize) -> Variable {
        self.expression(elem, format_args!("reinterpret_cast<const {} *>({address})[{i}]", type_name(elem)))
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

    /// The name of a variable in the text. Constants and builtins are copied to a local first.
    pub(crate) fn named(&mut self, x: Variable) -> String {
        name(x).unwrap_or_else(|| {
            let local = self.snapshot(x);
            name(local).unwrap_or_else(|| crate::bug!("a local without a name"))
        })
    }
}

/// The type in CUDA C++.
fn type_name(elem: ElemType) -> &'static str {
    match elem {
        F32 => "float",
        U64 => "uint64",
        ElemType::Float(FloatKind::F16) => "__half",
        ElemType::Float(FloatKind::BF16) => "__nv_bfloat16",
        _ => "uint32",
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

/// The text with its comments turned into code, and with the definitions of the called functions.
pub fn with_calls(text: &str, frame: Option<(TensorCores, &[WarpgroupProduct])>) -> String {
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
    let [device, host] =
        frame.map(|(cores, products)| ptx::definitions(&text, cores, products)).unwrap_or_default();
    let host = if host.is_empty() { host } else { format!("#else\n{host}") };
    let kernel = text.find("extern \"C\"").unwrap_or(0);
    let (before, after) = text.split_at(kernel);
    // A host compiler supplies its own definitions.
    format!("{before}#ifdef __CUDA_ARCH__\n{}{device}{host}#endif\n\n{after}", definitions.concat())
}
