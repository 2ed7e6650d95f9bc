//! Tests of autotuning.

use super::*;

/// All variants run. The choice depends on the GPU.
#[test]
fn every_variant_of_a_matmul_can_be_timed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(gpu) = tuning_gpu(&folder) else { return };
    let plan = planned(&gpu.model(), |b| {
        let ty = |extents: &[usize]| Type::new(DType::F32, extents);
        let lhs = b.input("lhs", InputKind::Data, ty(&[128, 512]));
        let rhs = b.input("rhs", InputKind::Data, ty(&[512, 160]));
        let y = b.mm(lhs, rhs);
        vec![b.unary(Unary::Tanh, y)]
    });
    let timed = choose(&gpu.gpu, &plan).unwrap();
    let chosen = timed.programs[0].chosen.clone().unwrap();
    assert!(chosen.is_tuned && chosen.variants.len() > 2 && chosen.variants.contains(&chosen.variant));
    // A software GPU does not autotune.
    let Some(slow) = super::gpu() else { return };
    let untimed = choose(&slow.gpu, &plan).unwrap();
    let chosen = untimed.programs[0].chosen.clone().unwrap();
    assert_eq!((chosen.is_tuned, chosen.variant), (false, chosen.variants[0]));
    assert_eq!(slow.tuning(), None);
    assert!(!slow.adopt(&Tuning::default()));
}

/// A software GPU with autotuning, which stores its choices in this folder.
fn tuning_gpu(folder: &tempfile::TempDir) -> Option<WgpuDevice> {
    let mut gpu = gpu()?;
    let context = Arc::get_mut(&mut gpu.gpu).unwrap();
    context.state.can_autotune = true;
    context.state.choices = DiskCache::within(folder.path());
    Some(gpu)
}

/// The choices of a GPU for a plan with one matmul, after it has adopted others; and whether it has timed variants.
fn chosen_with(adopted: Option<&Tuning>, plan: &Arc<Plan>) -> Option<(Tuning, bool)> {
    // An empty folder holds no choices of other GPUs.
    let folder = tempfile::tempdir().unwrap();
    let gpu = tuning_gpu(&folder)?;
    if let Some(tuning) = adopted {
        let read = Tuning::from_text(&tuning.to_text()).unwrap();
        assert_eq!(gpu.adopt(&read), tuning.device == gpu.gpu.state.tuner.device());
    }
    gpu.prepare(Arc::clone(plan), 1).unwrap();
    // The first timing warms the GPU up.
    Some((gpu.tuning().unwrap(), gpu.gpu.state.is_warmed_up.load(Ordering::Relaxed)))
}

/// A run that resumes on the same model of GPU adopts the choices without timing. Impossible choices and those of another
/// model are replaced.
#[test]
fn choices_of_a_checkpoint_are_adopted_on_the_same_model() {
    let plan = planned(&DeviceModel::CPU, |b| {
        let ty = |extents: &[usize]| Type::new(DType::F32, extents);
        let lhs = b.input("lhs", InputKind::Data, ty(&[128, 512]));
        let rhs = b.input("rhs", InputKind::Data, ty(&[512, 160]));
        vec![b.mm(lhs, rhs)]
    });
    let Some((found, has_timed)) = chosen_with(None, &plan) else { return };
    assert!(has_timed);
    let variants = KernelSpec::splits(&plan.kernels[0], gpu().unwrap().gpu.state.model);
    let texts: Vec<String> = variants.into_iter().map(|split| Variant::Blocked(split).to_string()).collect();
    let choosing = |text: &str| {
        let choices = found.choices.keys().map(|subject| (subject.clone(), text.to_string()));
        Tuning { choices: choices.collect(), ..found.clone() }
    };
    assert!(texts.len() > 2 && found.choices.len() == 1);
    for text in &texts {
        // Timing might choose another variant.
        let adopted = choosing(text);
        assert_eq!(chosen_with(Some(&adopted), &plan).unwrap(), (adopted, false));
    }
    let is_replaced = |adopted: Tuning| {
        let (tuning, has_timed) = chosen_with(Some(&adopted), &plan).unwrap();
        has_timed && tuning.choices.values().all(|text| texts.contains(text))
    };
    let impossible = Variant::MatrixUnits(BLOCKS[0]).to_string();
    for text in [&impossible, "blocked"] {
        assert!(is_replaced(choosing(text)), "{text}");
    }
    assert!(is_replaced(Tuning { device: "another model".into(), ..choosing(&texts[0]) }));
}
