//! Kernels as text, and the cache of compiled ones.

use super::parallel::in_parallel;
use crate::device::DeviceError;
use crate::panics::caught;
use dashmap::DashMap;
use engine_core::codegen::TensorMap;
use std::sync::Arc;

/// The text of a kernel, with the facts that a launch needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Source {
    /// The text in the language of the API.
    pub text: String,
    /// The name of its entry point.
    pub entry: String,
    /// Threads of a block along each axis; WGSL has them in the text.
    pub threads: [u32; 3],
    /// The bytes of shared memory of a block.
    pub shared_bytes: usize,
    /// The number of its buffers, without the scalars.
    pub n_buffers: usize,
    /// The tensor maps that CUDA passes before the buffers.
    pub maps: Vec<TensorMap>,
}

/// Compiled kernels by source. They stay as long as the GPU is open.
pub struct KernelCache<K> {
    compiled: DashMap<Source, Arc<K>>,
}

impl<K> Default for KernelCache<K> {
    fn default() -> KernelCache<K> {
        KernelCache { compiled: DashMap::new() }
    }
}

impl<K: Send + Sync> KernelCache<K> {
    /// The kernels of some sources, in their order. Those that are not cached are compiled in parallel. Each source comes
    /// with the name of its owner, for errors. A panic of the compiler is an error of the kernel.
    ///
    /// # Errors
    /// Those of `compile`.
    pub fn load(
        &self,
        sources: &[(String, Source)],
        compile: impl Fn(&str, &Source) -> Result<K, DeviceError> + Sync,
    ) -> Result<Vec<Arc<K>>, DeviceError> {
        let mut missing: Vec<&(String, Source)> = vec![];
        for owned in sources {
            let is_listed = missing.iter().any(|(_, known)| *known == owned.1);
            if !is_listed && !self.compiled.contains_key(&owned.1) {
                missing.push(owned);
            }
        }
        let compiled = in_parallel(&missing, |(owner, source)| {
            let compiled = caught(|| compile(owner, source));
            let kernel = compiled.unwrap_or_else(|message| Err(panicked(owner, &message, &source.text)))?;
            self.compiled.insert(source.clone(), Arc::new(kernel));
            Ok(())
        });
        compiled.into_iter().collect::<Result<(), DeviceError>>()?;
        let kernel = |source: &Source| self.compiled.get(source).map(|entry| Arc::clone(entry.value()));
        let kernels = sources.iter().map(|(_, source)| {
            kernel(source).unwrap_or_else(|| engine_core::bug!("a kernel was not compiled"))
        });
        Ok(kernels.collect())
    }

    /// As [`KernelCache::load`], for one source.
    ///
    /// # Errors
    /// Those of `compile`.
    pub fn load_one(
        &self,
        owner: &str,
        source: Source,
        compile: impl Fn(&str, &Source) -> Result<K, DeviceError> + Sync,
    ) -> Result<Arc<K>, DeviceError> {
        Ok(self.load(&[(owner.to_string(), source)], compile)?.remove(0))
    }
}

/// The error of a kernel whose compiler panicked.
pub fn panicked(owner: &str, message: &str, text: &str) -> DeviceError {
    DeviceError::not_compiled(owner, &format!("the compiler panicked: {message}"), text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn sources(texts: &[&str]) -> Vec<(String, Source)> {
        let source = |text: &&str| Source { text: text.to_string(), ..Source::default() };
        texts.iter().map(|text| (format!("map {text}"), source(text))).collect()
    }

    #[test]
    fn equal_sources_are_compiled_once_and_kernels_are_in_order() {
        let (cache, n_compiled) = (KernelCache::default(), AtomicUsize::new(0));
        let compile = |_: &str, source: &Source| {
            n_compiled.fetch_add(1, Ordering::Relaxed);
            Ok(source.text.clone())
        };
        let texts =
            |kernels: Vec<Arc<String>>| kernels.iter().map(|text| text.to_string()).collect::<Vec<_>>();
        assert_eq!(texts(cache.load(&sources(&["b", "a", "b"]), compile).unwrap()), ["b", "a", "b"]);
        assert_eq!(texts(cache.load(&sources(&["c", "a"]), compile).unwrap()), ["c", "a"]);
        assert_eq!(n_compiled.into_inner(), 3);
    }

    /// Kernels are compiled in parallel, where an uncaught panic would end the process.
    #[test]
    fn a_panic_of_the_compiler_is_an_error() {
        let cache = KernelCache::<()>::default();
        let error = cache.load(&sources(&["exp y", "exp z"]), |owner, _| panic!("no {owner}")).unwrap_err();
        let message = error.to_string();
        let (kernel, panic) = ("the kernel of `map exp ", "the compiler panicked: no map exp ");
        assert!(message.starts_with(kernel) && message.contains(panic), "{message}");
        assert!(cache.load(&sources(&["exp y"]), |_, _| Ok(())).is_ok(), "a failure is not cached");
    }
}
