//! Programs as one list of kernels, for APIs whose queues take nothing else.

use super::prepared::{Prepared, Work};
use engine_core::plan::ALIGNMENT;
use engine_core::program::Place;
use std::mem::{replace, take};
use std::ops::Range;
use std::sync::Arc;

/// The kernels of programs.
pub struct KernelList<K> {
    pub all: Vec<ListedKernel<K>>,
    /// Their order: a kernel in a loop comes once for each trip.
    pub order: Vec<u32>,
    /// Parts of the order that are loops which the host runs.
    pub loops: Vec<HostLoop>,
    /// The scalars of all kernels, each at a multiple of [`ALIGNMENT`].
    pub infos: Vec<u8>,
}

/// A launch of a kernel.
pub struct ListedKernel<K> {
    pub kernel: Arc<K>,
    /// The position of its program.
    pub launch: usize,
    /// Its arguments in the order of bindings.
    pub arguments: Vec<Place>,
    /// The number of blocks along each axis.
    pub grid: [u32; 3],
    /// The bytes of its scalars.
    pub info: Range<usize>,
}

/// A loop that the host runs trip by trip: it may end early, or a loop within it may.
pub struct HostLoop {
    /// A trip in the order of kernels, which has it once.
    pub trip: Range<usize>,
    /// The most trips.
    pub trips: usize,
    /// The launch of the loop, and the truth value that ends it.
    pub until: Option<(usize, Place)>,
    /// Such loops within a trip.
    pub inner: Vec<HostLoop>,
}

impl<K> KernelList<K> {
    /// The list of programs, which consist of kernels only.
    pub fn new<P>(programs: &[&Prepared<K, P>]) -> KernelList<K> {
        let mut list = KernelList { all: vec![], order: vec![], loops: vec![], infos: vec![] };
        for (launch, program) in programs.iter().enumerate() {
            program.steps.iter().for_each(|step| list.add(launch, &program.kernels, &step.work));
        }
        list
    }

    /// The kernels of a launch, in order.
    pub fn of_launch(&self, launch: usize) -> impl Iterator<Item = usize> {
        let order = self.order.iter().map(|&number| number as usize);
        order.filter(move |&number| self.all[number].launch == launch)
    }

    fn add(&mut self, launch: usize, kernels: &[Arc<K>], work: &Work) {
        match work {
            Work::Kernel { kernel, arguments, grid, info } => {
                self.infos.resize(self.infos.len().next_multiple_of(ALIGNMENT), 0);
                let start = self.infos.len();
                self.infos.extend(info.iter().flat_map(|word| word.to_le_bytes()));
                self.order.push(self.all.len() as u32);
                self.all.push(ListedKernel {
                    kernel: Arc::clone(&kernels[*kernel]),
                    launch,
                    arguments: arguments.clone(),
                    grid: *grid,
                    info: start..self.infos.len(),
                });
            }
            &Work::Loop { ref body, trips, until, .. } => {
                let first = self.order.len();
                let before = take(&mut self.loops);
                body.iter().for_each(|step| self.add(launch, kernels, &step.work));
                let inner = replace(&mut self.loops, before);
                if until.is_some() || !inner.is_empty() {
                    let (trip, until) = (first..self.order.len(), until.map(|until| (launch, until)));
                    self.loops.push(HostLoop { trip, trips, until, inner });
                    return;
                }
                let trip = self.order.split_off(first);
                self.order.extend((0..trips).flat_map(|_| trip.iter().copied()));
            }
            _ => engine_core::bug!("a step that is no kernel"),
        }
    }
}
