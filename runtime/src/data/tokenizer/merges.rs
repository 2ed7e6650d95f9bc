//! Byte-pair encoding: pairs of tokens are merged, the pair that was learned first before all others.
//!
//! R. Sennrich, B. Haddow and A. Birch, "Neural machine translation of rare words with subword units" (ACL 2016).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use indexmap::IndexMap;
use serde::Deserialize;

use super::error::TokenizerFact;

/// Two tokens that become one. Older files have a space between them.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Merge {
    Pair([String; 2]),
    Text(String),
}

/// The merged token of each pair, and the place of the merge in the order of learning.
#[derive(Debug)]
pub(super) struct Merges(HashMap<(u32, u32), (u32, u32)>);

/// A token among those of a piece, which are linked as a list.
struct Part {
    id: u32,
    before: Option<usize>,
    after: Option<usize>,
}

impl Merges {
    pub(super) fn new(vocabulary: &IndexMap<String, u32>, merges: &[Merge]) -> Result<Merges, TokenizerFact> {
        let mut ranks = HashMap::with_capacity(merges.len());
        for (rank, merge) in (0u32..).zip(merges) {
            let number = rank as usize + 1;
            let (left, right) = match merge {
                Merge::Pair([left, right]) => (&**left, &**right),
                Merge::Text(text) => text
                    .split_once(' ')
                    .ok_or_else(|| TokenizerFact::BadMerge { number, text: text.clone() })?,
            };
            let id = |token: &str| {
                let unknown = || TokenizerFact::UnknownToken { number, token: token.to_string() };
                vocabulary.get(token).copied().ok_or_else(unknown)
            };
            let pair = (id(left)?, id(right)?);
            ranks.insert(pair, (rank, id(&format!("{left}{right}"))?));
        }
        Ok(Merges(ranks))
    }

    /// Merges the tokens of a piece and appends what remains. Takes n log n steps for n tokens.
    pub(super) fn merge(&self, tokens: Vec<u32>, merged: &mut Vec<u32>) {
        let n_tokens = tokens.len();
        let part = |(at, id): (usize, u32)| Part {
            id,
            before: at.checked_sub(1),
            after: Some(at + 1).filter(|&after| after < n_tokens),
        };
        let mut parts: Vec<Part> = tokens.into_iter().enumerate().map(part).collect();
        let mut queue = BinaryHeap::new();
        let offer = |queue: &mut BinaryHeap<_>, parts: &[Part], left: usize| {
            let Some(right) = parts[left].after else { return };
            let pair = (parts[left].id, parts[right].id);
            if let Some(&(rank, _)) = self.0.get(&pair) {
                queue.push(Reverse((rank, left, pair)));
            }
        };
        (0..n_tokens).for_each(|left| offer(&mut queue, &parts, left));
        while let Some(Reverse((_, left, pair))) = queue.pop() {
            let Some(right) = parts[left].after else { continue };
            // One of the two may have been merged with another neighbour.
            if (parts[left].id, parts[right].id) != pair {
                continue;
            }
            parts[left].id = self.0[&pair].1;
            let after = parts[right].after.take();
            parts[left].after = after;
            if let Some(after) = after {
                parts[after].before = Some(left);
            }
            // The merged token is in no pair any more.
            parts[right].id = u32::MAX;
            if let Some(before) = parts[left].before {
                offer(&mut queue, &parts, before);
            }
            offer(&mut queue, &parts, left);
        }
        let mut at = Some(0).filter(|_| n_tokens > 0);
        while let Some(part) = at.map(|at| &parts[at]) {
            merged.push(part.id);
            at = part.after;
        }
    }
}
