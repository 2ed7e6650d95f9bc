//! Philox4x32-10 in plain code (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

/// The first `count` words of a node. Element e is lane e mod 4 of a block. The block's counter is
/// `[low half of e/4, high half of e/4, step, iteration]`, and its key is `[low ^ high half of the seed, stream]`.
pub(super) fn words(seed: u64, stream: u32, step: u32, iteration: u32, count: usize) -> Vec<u32> {
    let key = [seed as u32 ^ (seed >> 32) as u32, stream];
    let blocks = (0..count.div_ceil(4) as u64)
        .flat_map(|block| philox_block([block as u32, (block >> 32) as u32, step, iteration], key));
    blocks.take(count).collect()
}

/// Ten rounds.
pub(super) fn philox_block(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let mut words = counter;
    for round in 0..10u32 {
        let key_0 = key[0].wrapping_add(round.wrapping_mul(0x9E37_79B9));
        let key_1 = key[1].wrapping_add(round.wrapping_mul(0xBB67_AE85));
        let even = u64::from(words[0]) * 0xD251_1F53;
        let odd = u64::from(words[2]) * 0xCD9E_8D57;
        words = [
            (odd >> 32) as u32 ^ words[1] ^ key_0,
            odd as u32,
            (even >> 32) as u32 ^ words[3] ^ key_1,
            even as u32,
        ];
    }
    words
}
