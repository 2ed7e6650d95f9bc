//! The error flag: the record of failed assertions. A guarded kernel writes no state once the flag is raised.
//!
//! Its words, zero before a run:
//!
//! - whether an assertion has failed;
//! - whether the record is closed: a guarded kernel has read the flag, so failures of later steps are not
//!   recorded;
//! - the largest `!node` of a failure, so that the lowest node is reported;
//! - the number of records, and the last [`MOST_RECORDS`] of them: node, value (low, high), position in the node's
//!   own tensor (low, high);
//! - by node, the largest `!position`.
//!
//! A thread records its failure unless another thread has recorded a lower one. The lowest failure is thus among
//! the last [`MOST_RECORDS`] records. [`first_failure`] is the same in every run, and equals the CPU's. Positions
//! from 2³² - 2 on count as one.

use crate::codegen::ir::builder::{Code, I32, I64, U32, U64};
use crate::ir::NodeId;
use cubecl_core::ir::{Bitwise, Comparison, Variable};

/// Words of the flag that the host reads after a run. A kernel without assertions needs no others.
pub const ASSERTION_WORDS: usize = RECORDS + MOST_RECORDS * RECORD_WORDS;

pub const RAISED: usize = 0;
const CLOSED: usize = 1;
pub const LOWEST_NODE: usize = 2;
pub const N_RECORDS: usize = 3;
pub const RECORDS: usize = 4;
pub const RECORD_WORDS: usize = 5;
/// Far more records than threads that fail with successively lower elements at once. If very many threads visit
/// falling positions, a late record may overwrite the lowest one; a higher failure is then reported.
pub const MOST_RECORDS: usize = 256;

/// Words of a flag for the assertions of these nodes.
pub fn assertion_words(sites: impl IntoIterator<Item = NodeId>) -> usize {
    ASSERTION_WORDS + sites.into_iter().map(|site| site + 1).max().unwrap_or(0)
}

/// A failed assertion, ordered by node and then by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailedAssertion {
    /// The primitive node that checks.
    pub site: NodeId,
    /// The row-major element number in the node's own tensor.
    pub position: u64,
    /// The rejected value.
    pub value: i64,
}

/// The first failure of a flag, of which the first [`ASSERTION_WORDS`] words are read.
pub fn first_failure(flag: &[u32]) -> Option<FailedAssertion> {
    let long = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let failure = |record: &[u32; RECORD_WORDS]| {
        let [site, value_low, value_high, low, high] = *record;
        FailedAssertion {
            site: site as NodeId,
            position: long(low, high),
            value: long(value_low, value_high) as i64,
        }
    };
    if flag[RAISED] == 0 {
        return None;
    }
    let n_records = (flag[N_RECORDS] as usize).min(MOST_RECORDS);
    let records = &flag[RECORDS..ASSERTION_WORDS].as_chunks().0[..n_records];
    let first = records.iter().map(failure).min();
    Some(first.unwrap_or_else(|| crate::bug!("an error flag without a record")))
}

/// Whether no assertion has failed. If one has, this closes the record: the flag is read before state is written,
/// after all assertions of a step.
pub fn is_clear(code: &mut Code, flag: Variable) -> Variable {
    let first = code.at(RAISED as i64);
    let raised = code.load(flag, first);
    let [zero, one] = [0, 1].map(|word| code.int(U32, word));
    let is_raised = code.cmp(Comparison::NotEqual, raised, zero);
    code.when(is_raised, |code| {
        let closed = code.at(CLOSED as i64);
        code.store(flag, closed, one);
    });
    code.cmp(Comparison::Equal, raised, zero)
}

/// Records a failed assertion.
pub fn raise(code: &mut Code, flag: Variable, value: Variable, site: NodeId, position: Variable) {
    let flag = Flag(flag);
    let [none, one, node, lowest] =
        [0, 1, site as i64, i64::from(!(site as u32))].map(|word| code.int(U32, word));
    let closed = flag.word(code, CLOSED);
    let closed = code.atomic_load(U32, closed);
    let is_open = code.cmp(Comparison::Equal, closed, none);
    code.when(is_open, |code| {
        // The flag is raised first, because later writes of this block depend on it.
        let raised = flag.word(code, RAISED);
        code.swap(raised, one);
        let place = flag.word(code, LOWEST_NODE);
        let before = code.atomic_max(place, lowest);
        let is_lowest_node = code.cmp(Comparison::GreaterEqual, lowest, before);
        code.when(is_lowest_node, |code| {
            let rank = rank(code, position);
            let place = flag.word(code, ASSERTION_WORDS + site);
            let before = code.atomic_max(place, rank);
            let is_lowest = code.less(before, rank);
            code.when(is_lowest, |code| flag.record(code, node, value, position));
        });
    });
}

/// The error flag as an array of atomic words.
struct Flag(Variable);

impl Flag {
    fn word(&self, code: &mut Code, word: usize) -> Variable {
        let word = code.at(word as i64);
        code.place(self.0, word)
    }

    fn record(&self, code: &mut Code, node: Variable, value: Variable, position: Variable) {
        let one = code.int(U32, 1);
        let count = self.word(code, N_RECORDS);
        let number = code.atomic_add(count, one);
        let number = code.cast(code.index, number);
        let slot = code.modulo(number, MOST_RECORDS);
        let start = code.scaled(slot, RECORD_WORDS as i64);
        let [[value_low, value_high], [low, high]] = [value, position].map(|number| words(code, number));
        for (i, word) in [node, value_low, value_high, low, high].into_iter().enumerate() {
            let index = code.at_offset(start, RECORDS + i);
            let place = code.place(self.0, index);
            code.swap(place, word);
        }
    }
}

/// A positive number that falls as the position rises. Positions from 2³² - 2 on share one number.
fn rank(code: &mut Code, position: Variable) -> Variable {
    let elem = position.elem_type();
    let last = code.int(elem, i64::from(u32::MAX - 1));
    let is_before = code.less(position, last);
    let position = code.select(is_before, position, last);
    let position = code.cast(U32, position);
    code.bit_not(position)
}

/// The low and the high word of an integer.
fn words(code: &mut Code, number: Variable) -> [Variable; 2] {
    let elem = number.elem_type();
    let low = code.cast(U32, number);
    let high = match elem {
        I64 | U64 => {
            let bits = code.int(elem, 32);
            let high = code.bit(Bitwise::ShiftRight, number, bits);
            code.cast(U32, high)
        }
        I32 => {
            let zero = code.int(I32, 0);
            let is_negative = code.less(number, zero);
            let [ones, none] = [i64::from(u32::MAX), 0].map(|word| code.int(U32, word));
            code.select(is_negative, ones, none)
        }
        _ => code.int(U32, 0),
    };
    [low, high]
}
