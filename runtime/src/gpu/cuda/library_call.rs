//! Calls of NVIDIA's libraries: addresses, limits and algorithms, as all of them have them.

use crate::autotune::Choice;
use crate::device::DeviceError;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use engine_core::device_model::{self, DeviceModel};
use engine_core::program::NO_ALGORITHM;
use std::ops::Range;

/// Addresses of the tensors of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallAddresses {
    /// Start of each factor's operand, before its offset. The right factor comes first.
    pub factors: [CUdeviceptr; 2],
    /// Start of the result.
    pub result: CUdeviceptr,
    /// Start of what is added to each element, if there is something.
    pub added: Option<CUdeviceptr>,
    /// Start of the bias, if there is one.
    pub bias: Option<CUdeviceptr>,
}

/// The limits of the libraries on all devices.
pub const LIBRARY: device_model::Library = match DeviceModel::H200.library {
    Some(library) => library,
    None => panic!("CUDA without a library"),
};

/// A call as its library describes it, without an algorithm.
pub trait LibraryCall {
    type Algorithm: Algorithm;

    /// Whether the library accepts an algorithm within the size of its workspace.
    fn accepts(&self, algorithm: &Self::Algorithm) -> bool;

    /// Enqueues the call, computed by an algorithm.
    fn launch(
        &self,
        algorithm: &Self::Algorithm,
        addresses: CallAddresses,
        workspace: &Range<CUdeviceptr>,
        stream: CUstream,
    ) -> Result<(), DeviceError>;
}

/// An algorithm of a library, with a text form.
pub trait Algorithm: Copy {
    fn to_text(&self) -> String;

    /// `None` if the text is not one of an algorithm.
    fn from_text(text: &str) -> Option<Self>;
}

/// The chosen algorithm of a call; `None` if the library has none for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen<A>(pub Option<A>);

impl<A: Algorithm> Choice for Chosen<A> {
    fn to_text(&self) -> String {
        self.0.map_or(NO_ALGORITHM.to_string(), |algorithm| algorithm.to_text())
    }

    fn from_text(text: &str) -> Option<Chosen<A>> {
        if text == NO_ALGORITHM {
            Some(Chosen(None))
        } else {
            A::from_text(text).map(|known| Chosen(Some(known)))
        }
    }
}
