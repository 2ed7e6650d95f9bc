//! Programs as text.
//!
//! ```text
//!    3 matmul h  # stream 0, variant library (of library | own kernel)
//!        matmul f32 128x784 @ 784x256 + bias, relu -> @3, algorithm: tuned on device
//! ```

use super::library::Multiplier;
use super::{Action, Choice, Collective, KernelStep, MatmulStep, Place, Program, Programs, Step};
use crate::device_model::DeviceModel;
use crate::plan::Plan;
use std::fmt::{self, Write};

impl Programs {
    /// The programs of a plan on a device, as `explain --stage programs` shows them.
    pub fn describe(&self, plan: &Plan, device: &DeviceModel) -> String {
        let n_steps: usize = self.programs.iter().map(|program| program.steps.len()).sum();
        let mut text = format!(
            "programs {}: {} launches, {n_steps} steps, workspaces {} B\n",
            plan.name,
            self.programs.len(),
            self.workspaces.bytes
        );
        for (at, (launch, program)) in plan.launches.iter().zip(&self.programs).enumerate() {
            let kernel = &plan.kernels[launch.kernel];
            let _ = write!(text, "{at:>4} {} {}  # stream {}", kernel.kind(), kernel.name, launch.stream);
            if program.workspace_bytes > 0 {
                let start = self.workspaces.launches[at].start;
                let _ = write!(text, ", workspace {} B at {start}", program.workspace_bytes);
            }
            if let Some(chosen) = &program.chosen {
                let _ = write!(text, ", {chosen}");
            }
            text.push('\n');
            text.push_str(&steps_text(program, device));
        }
        for (stream, range) in
            self.workspaces.library.iter().enumerate().filter(|(_, range)| !range.is_empty())
        {
            let (bytes, start) = (range.len(), range.start);
            let _ = writeln!(text, "     library workspace of stream {stream}: {bytes} B at {start}");
        }
        text
    }
}

/// `variant library (of library | own kernel)`, or all of them where none was timed.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.variants.iter().map(ToString::to_string).collect();
        match self.is_tuned {
            true => write!(f, "variant {} (of {})", self.variant, all.join(" | ")),
            false => write!(f, "variant: tuned on device ({})", all.join(" | ")),
        }
    }
}

/// Steps line by line. Steps that differ only in offsets from those before are counted.
fn steps_text(program: &Program, device: &DeviceModel) -> String {
    let lines: Vec<[String; 2]> = program.steps.iter().map(|step| step_lines(step, device)).collect();
    let (mut text, mut at) = (String::new(), 0);
    while at < lines.len() {
        let [length, times] = repetition(&lines[at..]);
        let indent = if times > 1 { "         " } else { "       " };
        if times > 1 {
            let _ = writeln!(text, "       {times} times");
        }
        for [line, _] in &lines[at..at + length] {
            let _ = writeln!(text, "{indent}{line}");
        }
        at += length * times;
    }
    text
}

/// The shortest beginning that repeats, and how often; one line where nothing does. A panel begins with its matmul.
fn repetition(lines: &[[String; 2]]) -> [usize; 2] {
    let longest = if lines[0][1].starts_with("matmul") { 2 } else { 1 };
    for length in 1..=longest.min(lines.len() / 2) {
        let is_same = |(at, [_, shape]): (usize, &[String; 2])| lines[at % length][1] == *shape;
        let n_same = lines.iter().enumerate().take_while(|&line| is_same(line)).count();
        if n_same >= 2 * length {
            return [length, n_same / length];
        }
    }
    [1, 1]
}

/// A step as a line, and the same without offsets and waits.
fn step_lines(step: &Step, device: &DeviceModel) -> [String; 2] {
    let [line, shape] = match &step.action {
        Action::Kernel(kernel) => kernel_lines(kernel),
        Action::Matmul(matmul) => [true, false].map(|is_full| matmul_line(matmul, device, is_full)),
        Action::Copy { from, to, bytes } => same(format!("copy {bytes} B {from} -> {to}")),
        Action::Fill { to, bytes, byte } => same(format!("fill {bytes} B of {to} with {byte}")),
        Action::Loop { body, chosen, trips, until, .. } => {
            let choices_at = |at: usize| chosen.iter().filter(move |(first, ..)| *first == at);
            let choices = |at: usize| choices_at(at).map(|(_, name, chosen)| format!("# {name}: {chosen}"));
            let lines = |(at, step): (usize, &Step)| choices(at).chain([step_lines(step, device)[0].clone()]);
            let body: Vec<String> = body.iter().enumerate().flat_map(lines).collect();
            let head = match until {
                Some(until) => format!("loop until {until}, at most {trips} times"),
                None => format!("loop {trips} times"),
            };
            same(format!("{head} {{\n           {}\n       }}", body.join("\n           ")))
        }
        Action::Collective(Collective::AllReduce { at, bytes }) => {
            same(format!("all-reduce {bytes} B of {at}"))
        }
    };
    let branch = if step.branch == 0 { "" } else { "beside: " };
    let waits = match &step.waits[..] {
        [] => String::new(),
        waits => format!(", after {waits:?}"),
    };
    // The first steps of a pipeline wait for nothing.
    [format!("{branch}{line}{waits}"), format!("{branch}{shape}")]
}

fn same(line: String) -> [String; 2] {
    [line.clone(), line]
}

fn kernel_lines(step: &KernelStep) -> [String; 2] {
    let KernelStep { kernel, arguments, grid: [x, y, z], scalars } = step;
    let grid = if (*y, *z) == (1, 1) { x.to_string() } else { format!("{x}x{y}x{z}") };
    let head = format!("kernel {} <{grid} x {}>", kernel.entry(), kernel.schedule.threads(kernel));
    let places: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let line = format!("{head} ({}) {scalars:?}", places.join(", "));
    [line, head]
}

fn matmul_line(step: &MatmulStep, device: &DeviceModel, is_full: bool) -> String {
    let MatmulStep { call, factors: [lhs, rhs], result, added, bias, algorithm } = step;
    let mut line = format!("{}{}", call.title(), call.epilogue);
    if is_full {
        let others: String = [added, bias].into_iter().flatten().map(|place| format!(", {place}")).collect();
        let _ = write!(line, " ({lhs}, {rhs}{others}) -> {} {result}", call.result);
    }
    match (&call.multiplier, algorithm) {
        (Multiplier::MatrixUnits(block), _) => {
            let _ = write!(line, ", matrix units {block}");
        }
        (_, Some(algorithm)) => {
            let _ = write!(line, ", algorithm: {algorithm}");
        }
        (_, None) => {
            let bytes = device.library.map_or(0, |library| call.workspace_bytes(library));
            let _ = write!(line, ", algorithm: tuned on device, workspace at most {bytes} B");
        }
    }
    line
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Operand { operand, offset: 0 } => write!(f, "@{operand}"),
            Place::Operand { operand, offset } => write!(f, "@{operand} + {offset}"),
            Place::Workspace { start, bytes } => write!(f, "workspace {start}..{}", start + bytes),
            Place::Assertions => f.write_str("assertions"),
        }
    }
}
