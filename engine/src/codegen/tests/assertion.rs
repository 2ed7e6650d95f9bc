//! The error flag: its failures, the kernels that it guards, and its report.

use super::*;
use crate::codegen::ops::assertion::{LOWEST_NODE, MOST_RECORDS, N_RECORDS, RAISED, RECORD_WORDS, RECORDS};

#[test]
fn the_first_label_out_of_range_raises_the_flag() {
    let mut labels = vec![0; 21];
    labels[13..20].fill(10);
    let x = bytes(&numbers(210));
    let Some(buffers) = on_host::run(&cross_entropy(21, 10), &[x, labels], 0) else { return };
    assert_eq!(reported(&buffers[5]), Some(FailedAssertion { site: 41, position: 13, value: 10 }));
}

/// Blocks check labels in an order in which later ones find lower failures.
#[test]
fn the_first_of_many_bad_labels_is_reported() {
    let n = 600;
    let kernel = cross_entropy(n, 10);
    let fused = KernelSpec::launches(&kernel, DeviceModel::H200).unwrap().remove(0);
    let x = bytes(&numbers(10 * n));
    let all_bad = |from: usize| (0..n).map(|i| if i < from { 3 } else { 10 + (i % 90) as u8 }).collect();
    // The flag has so many failures of a later node that two records remain; the third overwrites the first.
    let [node, n_found] = [99, MOST_RECORDS as u32 - 2];
    let mut words = vec![0; assertion_words(kernel.assertions())];
    (words[RAISED], words[LOWEST_NODE], words[N_RECORDS]) = (1, !node, n_found);
    for record in words[RECORDS..ASSERTION_WORDS].chunks_mut(RECORD_WORDS).take(n_found as usize) {
        record.copy_from_slice(&[node, 10, 0, 0, 0]);
    }
    let mut flag: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    assert_eq!(reported(&flag), Some(FailedAssertion { site: 99, position: 0, value: 10 }));
    // The flag passes from one launch to the next.
    for (from, first) in [(500, 500), (599, 500), (77, 77), (300, 77), (5, 5)] {
        let labels: Vec<u8> = all_bad(from);
        let buffers = fused.arguments().into_iter().map(|argument| match argument {
            Argument::Operand(0) => x.clone(),
            Argument::Operand(1) => labels.clone(),
            Argument::Operand(operand) => vec![0; kernel.operands[operand].ty.bytes()],
            _ => flag.clone(),
        });
        let Some(buffers) = on_host::run_arguments(&fused, buffers.collect(), 0) else { return };
        flag = buffers.last().unwrap().clone();
        let value = 10 + (first % 90) as i64;
        assert_eq!(
            reported(&flag),
            Some(FailedAssertion { site: 41, position: first as u64, value }),
            "{from}"
        );
    }
}

#[test]
fn failures_after_the_record_is_closed_are_not_reported() {
    let kernel = cross_entropy(4, 10);
    let checks = KernelSpec::launches(&kernel, DeviceModel::H200).unwrap().remove(0).checks_only().unwrap();
    let writes =
        KernelSpec::launches(&softmax(DType::F32, 3, 40), DeviceModel::H200).unwrap().remove(0).guarded();
    let find = |labels: [u8; 4], flag: Vec<u8>| {
        let outputs = kernel.operands[2..].iter().map(|operand| vec![0; operand.ty.bytes()]);
        let buffers = [bytes(&numbers(40)), labels.to_vec()].into_iter().chain(outputs).chain([flag]);
        Some(on_host::run_arguments(&checks, buffers.collect(), 0)?.pop().unwrap())
    };
    let Some(flag) = find([1, 2, 3, 12], clear_flag(&kernel)) else { return };
    let heeded = vec![bytes(&numbers(120)), vec![0; 480], flag];
    let flag = on_host::run_arguments(&writes, heeded, 0).unwrap().pop().unwrap();
    let flag = find([1, 11, 3, 4], flag).unwrap();
    assert_eq!(reported(&flag), Some(FailedAssertion { site: 41, position: 3, value: 12 }));
}

/// The error flag of a kernel, before it is raised.
pub fn clear_flag(kernel: &Kernel) -> Vec<u8> {
    vec![0; 4 * assertion_words(kernel.assertions())]
}

/// The report of an error flag.
pub fn reported(flag: &[u8]) -> Option<FailedAssertion> {
    let words: Vec<u32> = flag.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    first_failure(&words)
}

#[test]
fn a_guarded_kernel_writes_nothing_once_the_flag_is_raised() {
    let fused =
        KernelSpec::launches(&softmax(DType::F32, 3, 40), DeviceModel::H200).unwrap().remove(0).guarded();
    assert_eq!(fused.arguments().last(), Some(&Argument::Guard));
    let x = bytes(&numbers(120));
    for (flag, is_written) in [(0u8, true), (1, false)] {
        let buffers = vec![x.clone(), vec![0xAA; 480], vec![flag; 4 * ASSERTION_WORDS]];
        let Some(buffers) = on_host::run_arguments(&fused, buffers, 0) else { return };
        assert_eq!(buffers[1].iter().any(|&byte| byte != 0xAA), is_written);
    }
}

#[test]
fn a_kernel_that_only_checks_writes_nothing_but_the_flag() {
    let kernel = cross_entropy(4, 10);
    let fused = KernelSpec::launches(&kernel, DeviceModel::H200).unwrap().remove(0).checks_only().unwrap();
    let labels = vec![1, 12, 3, 4];
    let untouched = |bytes: usize| vec![0xAA; bytes];
    let buffers =
        vec![bytes(&numbers(40)), labels, untouched(16), untouched(16), untouched(160), clear_flag(&kernel)];
    let Some(buffers) = on_host::run_arguments(&fused, buffers, 0) else { return };
    assert!(buffers[2..5].iter().flatten().all(|&byte| byte == 0xAA));
    assert_eq!(reported(&buffers[5]), Some(FailedAssertion { site: 41, position: 1, value: 12 }));
    assert_eq!(
        KernelSpec::launches(&softmax(DType::F32, 3, 40), DeviceModel::H200).unwrap().remove(0).checks_only(),
        None
    );
}
