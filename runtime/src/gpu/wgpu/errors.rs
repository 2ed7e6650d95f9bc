//! The errors of wgpu calls, which report them through error scopes.

use crate::device::DeviceError;

/// The result of a call, or the error that its error scopes caught.
pub fn checked<T>(device: &wgpu::Device, make: impl FnOnce() -> T) -> Result<T, wgpu::Error> {
    let filters =
        [wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::Validation];
    let mut scopes: Vec<_> = filters.into_iter().map(|filter| device.push_error_scope(filter)).collect();
    let made = make();
    let mut error = None;
    while let Some(scope) = scopes.pop() {
        error = pollster::block_on(scope.pop()).or(error);
    }
    error.map_or(Ok(made), Err)
}

/// The error of a call that allocates so many bytes, 0 for memory of the driver. `failed` words other errors.
pub fn refusal(
    device: &str,
    bytes: usize,
    error: &wgpu::Error,
    failed: impl FnOnce(String) -> DeviceError,
) -> DeviceError {
    match error {
        wgpu::Error::OutOfMemory { .. } => DeviceError::out_of_memory(device, bytes, None),
        other => failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_memory_is_distinguished_from_other_errors() {
        let refused = |error| refusal("a GPU", 0, &error, DeviceError::Failed);
        let full = refused(wgpu::Error::OutOfMemory { source: "no pages".into() });
        assert_eq!(full, DeviceError::out_of_memory("a GPU", 0, None));
        assert_eq!(full.to_string(), "a GPU has no memory left");
        let description = "a buffer of no use".to_string();
        let faulty = refused(wgpu::Error::Validation { source: "".into(), description });
        assert_eq!(faulty, DeviceError::Failed("a buffer of no use".into()));
    }
}
