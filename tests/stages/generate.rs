//! `Generate` stages: the plans of a prompt.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::*;
use engine::Program;
use engine::core::device_model::DeviceModel;
use engine::core::op::Registry;
use engine::core::plan::Plan;
use engine::runtime::data::source::LoadContext;
use engine::runtime::device::{
    Device, DeviceBuffer, DeviceError, DeviceInfo, Executable, KernelTime, RunError,
};
use engine::runtime::session::{
    self, CompilingPlanner, Effort, Event, PlanError, Planner, Request, StagePlan,
};

/// Notes the tokens per step and the cache of each plan of a decoder.
struct Noting {
    planner: CompilingPlanner,
    plans: Arc<Mutex<Vec<(usize, usize)>>>,
}

impl Planner for Noting {
    fn registry(&self) -> &Registry {
        self.planner.registry()
    }

    fn plan(&self, request: &Request) -> Result<StagePlan, PlanError> {
        if let Request::Decoding { extents, n_new, .. } = request {
            let cache = extents.iter().find(|(name, _)| &**name == "T").unwrap().1;
            self.plans.lock().unwrap().push((*n_new, cache));
        }
        self.planner.plan(request)
    }
}

/// The plans that a text takes, and how many there were at its first token.
fn plans(prompt: usize, length: usize) -> (Vec<(usize, usize)>, usize) {
    let text = format!(
        r#"(
          seed: 4,
          inputs: {{"token": "u8[B, T]"}},
          layers: {{"embed": "Embedding(rows=256, width=8)"}},
          nodes: {{
            "h": "TransformerBlock(embed(cast(token, dtype=i32)), heads=2, causal=true, rotary=true)",
            "logits": "Linear(h, width=256)",
          }},
          stages: {{"write": Generate(tokens: "token", logits: "logits", prompt: "{}", length: {length})}},
        )"#,
        "x".repeat(prompt)
    );
    let engine = Engine::new();
    let Program { pipeline, registry } = engine.read("t.ron", &text).unwrap();
    let pipeline = Arc::new(pipeline);
    let device = devices::open(Choice::Cpu, Some(1)).unwrap().device;
    let data = LoadContext::offline_in(Path::new("no/such/folder"));
    let sets = session::load_data(&pipeline, &engine.sources, &data, &mut |_| {}).unwrap();
    let options = Options { device: device.model(), ..Options::default() };
    let plans = Arc::new(Mutex::new(vec![]));
    let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry, options);
    let noting = Noting { planner, plans: Arc::clone(&plans) };
    let mut session = Session::new(pipeline, Arc::new(noting), device, sets).unwrap();
    let mut n_at_first = None;
    session
        .run_stages(None, &mut |event| {
            if let Event::Generated { .. } = event {
                n_at_first.get_or_insert(plans.lock().unwrap().len());
            }
        })
        .unwrap();
    let plans = plans.lock().unwrap().clone();
    (plans, n_at_first.unwrap())
}

/// A prompt of any length takes three sizes of steps, and a cache that grows has plans of its own.
#[test]
fn a_new_length_compiles_nothing() {
    let short = [(16, 32), (1, 32)];
    for prompt in [13, 15, 16, 20, 27] {
        assert_eq!(plans(prompt, 4), (short.to_vec(), 2), "{prompt} tokens");
    }
    let medium = [(256, 256), (16, 256), (1, 256)];
    for prompt in [200, 251] {
        assert_eq!(plans(prompt, 4), (medium.to_vec(), 3), "{prompt} tokens");
    }
    let growing = [(256, 256), (16, 256), (1, 256), (256, 512), (16, 512), (1, 512)];
    for prompt in [3, 254] {
        assert_eq!(plans(prompt, 270 - prompt), (growing.to_vec(), 6), "{prompt} tokens");
    }
}

/// A device that notes the steps of every run of a plan, which CUDA replays as one captured graph.
struct Counting {
    device: Arc<dyn Device>,
    runs: Arc<Mutex<Vec<u32>>>,
}

struct CountingPlan {
    plan: Box<dyn Executable>,
    runs: Arc<Mutex<Vec<u32>>>,
}

impl Device for Counting {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn model(&self) -> DeviceModel {
        self.device.model()
    }

    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer, DeviceError> {
        self.device.allocate(bytes)
    }

    fn write(&self, buffer: &DeviceBuffer, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        self.device.write(buffer, offset, bytes)
    }

    fn read(&self, buffer: &DeviceBuffer, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read(buffer, offset, bytes)
    }

    fn prepare(&self, plan: Arc<Plan>, seed: u64) -> Result<Box<dyn Executable>, DeviceError> {
        let plan = self.device.prepare(plan, seed)?;
        Ok(Box::new(CountingPlan { plan, runs: Arc::clone(&self.runs) }))
    }
}

impl Executable for CountingPlan {
    fn arena_bytes(&self) -> usize {
        self.plan.arena_bytes()
    }

    fn scratch_bytes(&self) -> usize {
        self.plan.scratch_bytes()
    }

    fn bind(&mut self, input: &str, buffer: &DeviceBuffer) -> Result<(), DeviceError> {
        self.plan.bind(input, buffer)
    }

    fn run(&mut self, first_step: u32, n_steps: u32) -> Result<(), RunError> {
        self.runs.lock().unwrap().push(n_steps);
        self.plan.run(first_step, n_steps)
    }

    fn read_output(&self, name: &str, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.plan.read_output(name, bytes)
    }

    fn profile(&mut self, step: u32) -> Result<Vec<KernelTime>, RunError> {
        self.plan.profile(step)
    }
}

/// Four runs find out that the model is causal; then each token is one run of one step.
#[test]
fn a_token_is_one_step_of_one_plan() {
    let text = r#"(
      seed: 4,
      inputs: {"token": "u8[B, T]"},
      layers: {"embed": "Embedding(rows=256, width=8)"},
      nodes: {
        "h": "TransformerBlock(embed(cast(token, dtype=i32)), heads=2, causal=true, rotary=true)",
        "logits": "Linear(h, width=256)",
      },
      stages: {"write": Generate(tokens: "token", logits: "logits", prompt: "x", length: 9)},
    )"#;
    let runs = Arc::new(Mutex::new(vec![]));
    let device = Arc::new(Counting { device: present::cpu(1), runs: Arc::clone(&runs) });
    offline::session(text, device, Options::default()).run_stages(None, &mut |_| {}).unwrap();
    assert_eq!(*runs.lock().unwrap(), [1; 4 + 9]);
}

/// The steps of one token are measured from the first place of a text to the last one, and from the first on again.
#[test]
fn tokens_are_measured() {
    let text = |settings: &str| {
        format!(
            r#"(
              seed: 4,
              inputs: {{"token": "u8[B, T]"}},
              layers: {{"embed": "Embedding(rows=256, width=8)"}},
              nodes: {{
                "h": "TransformerBlock(embed(cast(token, dtype=i32)), heads=2, causal=true, rotary=true)",
                "logits": "Linear(h, width=256)",
              }},
              stages: {{"write": Generate(tokens: "token", logits: "logits", prompt: "x", {settings})}},
            )"#
        )
    };
    let effort = Effort { warmup: 2, steps: 20, at_once: 3, profiled: 2 };
    let measured = |settings: &str| {
        let mut session = offline::session(&text(settings), present::cpu(1), Options::default());
        session.measure(None, effort).unwrap()
    };
    let [write] = &measured("length: 9")[..] else { panic!("one stage") };
    assert!(write.steps.len() == 20 && write.launches.iter().all(|times| times.len() == 2));
    assert_eq!(write.launches.len(), write.plan.launches.len());
    assert!(measured("length: 9, cache: false").is_empty());
}

/// With a cache and without, of one prompt and of several.
#[test]
fn gpus_write_the_text_of_the_cpu() {
    let text = |settings: &str| {
        format!(
            r#"(
              seed: 4,
              inputs: {{"token": "u8[B, T]"}},
              layers: {{"embed": "Embedding(rows=256, width=32)"}},
              nodes: {{
                "h": "TransformerBlock(embed(cast(token, dtype=i32)), heads=4, kv_heads=2, causal=true, rotary=true, repeat=2)",
                "logits": "Linear(LayerNorm(h), width=256, std=0.5)",
              }},
              stages: {{"write": Generate(tokens: "token", logits: "logits", length: 20, {settings})}},
            )"#
        )
    };
    for settings in
        [r#"prompt: "Once""#, r#"prompt: ["a longer prompt, by far", "b"]"#, r#"prompt: "c", cache: false"#]
    {
        let written = |device| {
            let mut session = offline::session(&text(settings), device, Options::default());
            session.run_stages(None, &mut |_| {}).unwrap().stages[0].texts.clone()
        };
        let expected = written(present::cpu(2));
        for gpu in present::gpus() {
            assert_eq!(written(Arc::clone(gpu)), expected, "{settings} on {}", gpu.info().name);
        }
    }
}
