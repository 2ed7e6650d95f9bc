//! `rank_select`.

use super::capacity::{cap, capacity, expect_countable};
use engine_core::ir::{Builder, DType, E, Literal, Monoid, NodeOp, Type, Value};
use engine_core::op::{Lowering, OpForm, TypeIssue};

/// Rank and select of flags in row-major order. `rank[j]` is how many of the flags before position `at[j]` are set; a
/// position is at most the number of flags. `positions[i]` is the position of flag i among those that are set; behind the
/// end it is arbitrary, but a position. `count` is how many are set. Other ops check it: this one has no error.
///
/// Flags are packed 32 to a word, and read once. Running counts of words give ranks, and a binary search in them gives
/// positions, so that nothing is scattered.
pub fn rank_select() -> OpForm {
    OpForm::new("rank_select", "Counts flags before positions, and lists the positions of flags.")
        .input("flags", "`bool` of any shape; less than 2³¹ of them")
        .input("at", "positions `i32[k]`, from 0 up to the number of flags")
        .results(&["rank", "positions", "count"])
        .attr(cap("how many positions are listed"))
        .types(|types, attrs| {
            let [flags, at] = [&types[0], &types[1]];
            flags.expect_dtype("rank_select", 0, |dtype| dtype == DType::Bool, "truth values")?;
            at.expect_dtype("rank_select", 1, |dtype| dtype == DType::I32, "positions, `i32`")?;
            if at.rank() != 1 {
                return Err(TypeIssue::new(format!("`rank_select` at {at}"))
                    .at(1, format!("this is {at}"))
                    .help("positions are a vector"));
            }
            expect_countable("rank_select", flags)?;
            let positions = Type::new(DType::I32, &[capacity("rank_select", attrs, 0)?]);
            Ok(vec![at.clone(), positions, Type::scalar(DType::I32)])
        })
        .expand(expansion)
        .no_grad("positions are piecewise constant")
        .example(
            "of five flags",
            "rank_select(a, b, cap=2)",
            &[("bool[5]", &[0., 1., 0., 1., 1.]), ("i32[3]", &[0., 2., 5.])],
            &[("i32[3]", &[0., 1., 3.]), ("i32[2]", &[1., 3.]), ("i32[]", &[3.])],
        )
}

fn expansion(b: &mut Builder, call: &Lowering) -> Vec<Value> {
    let [flags, at] = [call.inputs[0], call.inputs[1]];
    let number = b.iota(0, Type::new(DType::I32, &[call.attrs.int("cap") as usize]));
    if b.ty(flags).numel() == 0 {
        return vec![b.full_like(at, 0.0), number, b.full(Literal::Int(0), Type::scalar(DType::I32))];
    }
    let bits = BitVector::new(b, flags);
    vec![bits.rank(b, at), bits.select(b, number), bits.count(b)]
}

/// Flags of a word.
const WORD: usize = 32;
/// Words of a group. A block of a GPU scans the counts of a group.
const GROUP: usize = 1024;
/// The most counts that are scanned as one row.
const LONGEST_SCAN: usize = 4096;

/// Flags, 32 to a word, with running counts. So the flags are read once, and their positions are found without a scatter.
struct BitVector {
    /// The flags as bits, `u32[n_words]`.
    words: Value,
    /// Running counts from the coarsest to those of words.
    levels: Vec<Level>,
    /// How many flags there are.
    len: usize,
}

/// Running counts that start anew in each group.
struct Level {
    /// The counts up to and with each entry, `i32[n]`.
    counts: Value,
    n: usize,
    /// Entries of a group.
    group: usize,
}

impl BitVector {
    /// The bits of flags in row-major order, at least one.
    fn new(b: &mut Builder, flags: Value) -> BitVector {
        let len = b.ty(flags).numel();
        let n_words = len.div_ceil(WORD);
        let is_grouped = n_words > LONGEST_SCAN;
        let n_words = if is_grouped { n_words.next_multiple_of(GROUP) } else { n_words };
        let flags = b.reshape(flags, &[len]);
        let flags = match n_words * WORD - len {
            0 => flags,
            behind => b.pad(flags, &[0], &[behind], Literal::Bool(false)),
        };
        let flags = b.reshape(flags, &[n_words, WORD]);
        let place = b.iota(1, Type::new(DType::I32, &[n_words, WORD]));
        let place = b.cast(place, DType::U32);
        let bits = b.map(&[flags, place], |v| E::select(v[0], E::from(1i64) << v[1], 0i64));
        let words = b.sum(bits, &[1]);
        let counts = n_bits(b, words);
        let levels = if is_grouped { grouped(b, counts) } else { vec![Level::scanned(b, counts, n_words)] };
        BitVector { words, levels, len }
    }

    /// The number of flags that are set, `i32[]`.
    fn count(&self, b: &mut Builder) -> Value {
        let Level { counts, n, .. } = self.levels[0];
        let last = b.slice(counts, &[n - 1], &[1], &[1]);
        b.reshape(last, &[])
    }

    /// How many flags before each of these positions are set; positions are at most the number of flags.
    fn rank(&self, b: &mut Builder, positions: Value) -> Value {
        let n_words = self.n_words();
        let word = b.map(&[positions], |v| v[0] / WORD as f64);
        let mut rank = self.in_word(b, word, positions);
        for level in self.levels.iter().rev() {
            let words_of_entry = (n_words / level.n) as f64;
            let entry = b.map(&[word], |v| v[0] / words_of_entry);
            let before = level.before(b, entry);
            rank = b.add(rank, before);
        }
        rank
    }

    /// How many flags of its word before each position are set.
    fn in_word(&self, b: &mut Builder, word: Value, positions: Value) -> Value {
        let last = (self.n_words() - 1) as f64;
        let inside = b.map(&[word], |v| v[0].min(last));
        let bits = b.gather(self.words, inside, 0, 0);
        let before = b.map(&[positions, bits], |v| {
            let place = (v[0] % WORD as f64).cast(DType::U32);
            v[1] & ((E::from(1i64) << place) - E::from(1i64))
        });
        let before = n_bits(b, before);
        b.map(&[word, before], |v| E::select(v[0].le(last), v[1], 0i64))
    }

    /// The positions of the flags with these numbers among those that are set, from 0. Numbers are less than the count; for
    /// others the result is any position.
    fn select(&self, b: &mut Builder, numbers: Value) -> Value {
        let mut rest = numbers;
        let mut entry = None;
        for level in &self.levels {
            let found = level.found(b, entry, rest);
            let before = level.before(b, found);
            rest = b.sub(rest, before);
            entry = Some(found);
        }
        let Some(word) = entry else { engine_core::bug!("a bit vector without counts") };
        let bits = b.gather(self.words, word, 0, 0);
        let place = place_in_word(b, bits, rest);
        let last = (self.len - 1) as f64;
        b.map(&[word, place], |v| (v[0] * WORD as f64 + v[1]).min(last))
    }

    fn n_words(&self) -> usize {
        self.levels.last().map_or(0, |level| level.n)
    }
}

/// The running counts of groups, and those of their words.
fn grouped(b: &mut Builder, counts: Value) -> Vec<Level> {
    let n_words = b.extents(counts)[0];
    let n_groups = n_words / GROUP;
    let words = Level::scanned(b, counts, GROUP);
    let last = b.reshape(words.counts, &[n_groups, GROUP]);
    let last = b.slice(last, &[0, GROUP - 1], &[n_groups, 1], &[1, 1]);
    let last = b.reshape(last, &[n_groups]);
    vec![Level::scanned(b, last, n_groups), words]
}

impl Level {
    fn scanned(b: &mut Builder, counts: Value, group: usize) -> Level {
        let n = b.extents(counts)[0];
        let rows = b.reshape(counts, &[n / group, group]);
        let ty = b.ty(rows).clone();
        let running = b.push(NodeOp::Scan { monoid: Monoid::Sum, axis: 1 }, vec![rows], ty);
        Level { counts: b.reshape(running, &[n]), n, group }
    }

    /// The counts of all entries of the group before each of these; an entry may be the one behind the last.
    fn before(&self, b: &mut Builder, entry: Value) -> Value {
        let previous = b.map(&[entry], |v| (v[0] - 1.0).max(0.0));
        let count = b.gather(self.counts, previous, 0, 0);
        let (group, is_only) = (self.group as f64, self.group == self.n);
        b.map(&[entry, count], |v| {
            let place = if is_only { v[0] } else { v[0] % group };
            E::select(place.eq(0.0), 0i64, v[1])
        })
    }

    /// The first entry, within the group with this number, whose running count is above each number: a binary search by
    /// falling powers of 2.
    fn found(&self, b: &mut Builder, group: Option<Value>, numbers: Value) -> Value {
        let n = self.group;
        let zeros = b.full_like(numbers, 0.0);
        let first = match group {
            Some(group) => b.map(&[group], |v| v[0] * n as f64),
            None => zeros,
        };
        let (mut passed, mut step) = (zeros, 1 << n.ilog2());
        while step > 0 {
            let size = step as f64;
            let at = b.map(&[first, passed], |v| v[0] + (v[1] + (size - 1.0)).min((n - 1) as f64));
            let count = b.gather(self.counts, at, 0, 0);
            passed = b.map(&[passed, count, numbers], |v| {
                let next = v[0] + size;
                E::select(next.le(n as f64) & v[1].le(v[2]), next, v[0])
            });
            step /= 2;
        }
        b.map(&[first, passed], |v| v[0] + v[1].min((n - 1) as f64))
    }
}

/// The number of bits of `u32` words that are set, as `i32`. Each step adds neighbouring counts.
fn n_bits(b: &mut Builder, words: Value) -> Value {
    let every = |mask: i64| E::from(mask);
    let pairs = b.map(&[words], |v| v[0] - ((v[0] >> every(1)) & every(0x5555_5555)));
    let nibbles =
        b.map(&[pairs], |v| (v[0] & every(0x3333_3333)) + ((v[0] >> every(2)) & every(0x3333_3333)));
    let bytes = b.map(&[nibbles], |v| (v[0] + (v[0] >> every(4))) & every(0x0f0f_0f0f));
    let halves = b.map(&[bytes], |v| v[0] + (v[0] >> every(8)));
    b.map(&[halves], |v| ((v[0] + (v[0] >> every(16))) & every(0x3f)).cast(DType::I32))
}

/// The place of the bit with this number among those of its word that are set; the last place if there is none.
fn place_in_word(b: &mut Builder, words: Value, numbers: Value) -> Value {
    let (mut place, mut rest) = (b.full_like(numbers, 0.0), numbers);
    for width in [16i64, 8, 4, 2, 1] {
        let part = b.map(&[words, place], |v| (v[0] >> v[1].cast(DType::U32)) & E::from((1i64 << width) - 1));
        let below = n_bits(b, part);
        place = b.map(&[place, rest, below], |v| E::select(v[1].ge(v[2]), v[0] + width as f64, v[0]));
        rest = b.map(&[rest, below], |v| E::select(v[0].ge(v[1]), v[0] - v[1], v[0]));
    }
    b.map(&[place], |v| v[0].min((WORD - 1) as f64))
}
