//! The device of a command. Under `auto`, the next device replaces one that fails.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use engine_core::compile::Options;
use engine_core::device_model::DeviceModel;
use engine_runtime::device::Device;

use super::args::{CompileArgs, DeviceArgs, VerifyArgs};
use super::output::{Failure, remark};
use crate::devices::{self, Choice, Opened};

/// Does `work` on the requested device. Under `auto`, it starts over on the next device if one fails.
pub(super) fn on_device<T>(
    args: &DeviceArgs,
    work: impl FnMut(&Arc<dyn Device>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    on_opened(devices::open(args.device, args.threads)?, true, work)
}

/// Like [`on_device`], from an open device on. Unless `quiet`, it prints the device that `auto` chose.
pub(super) fn on_opened<T>(
    mut used: Opened,
    quiet: bool,
    mut work: impl FnMut(&Arc<dyn Device>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    loop {
        tell_device(&used, quiet);
        let failure = match work(&used.device) {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        match (&failure.of_device, &used.next) {
            (Some(error), Some(next)) => {
                remark(format!("note: {} cannot run this: {error}", used.device.info().name));
                used = devices::open_next(next)?;
            }
            _ => return Err(failure),
        }
    }
}

/// Starts the requested device, and no other.
pub(super) fn open_device(args: &DeviceArgs) -> Result<Arc<dyn Device>, Failure> {
    Ok(devices::open(args.device, args.threads)?.device)
}

/// Starts the requested device while `work` runs, since a GPU takes some tenths of a second. A missing device is
/// reported before.
pub(super) fn open_during<T>(args: &DeviceArgs, work: impl FnOnce() -> T) -> Result<(Opened, T), Failure> {
    const SOON: Duration = Duration::from_millis(10);
    let &DeviceArgs { device, threads } = args;
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || drop(sender.send(devices::open(device, threads))));
        let early = receiver.recv_timeout(SOON).ok().transpose()?;
        let done = work();
        let opened = match early {
            Some(opened) => opened,
            None => receiver.recv().map_err(Failure::machine)??,
        };
        Ok((opened, done))
    })
}

fn tell_device(opened: &Opened, quiet: bool) {
    if let Some(why) = opened.why.as_ref().filter(|_| !quiet) {
        remark(format!("device: {why}"));
    }
}

impl VerifyArgs {
    /// Starts the devices to compare.
    pub(super) fn open_devices(&self) -> Result<Vec<Arc<dyn Device>>, Failure> {
        let place = |&device: &Choice| DeviceArgs { device, threads: self.threads };
        self.device.iter().map(|choice| open_device(&place(choice))).collect()
    }
}

/// The compiler settings for a device.
pub(super) fn compile_options_for(args: &CompileArgs, device: &dyn Device) -> Options {
    Options { device: device.model(), ..compile_options(args) }
}

/// The compiler settings for a choice of device, by a typical model of it: no device is opened, except under `auto`.
pub(super) fn compile_options_of(args: &CompileArgs, choice: Choice) -> Result<Options, Failure> {
    let device = match choice {
        Choice::Cpu => DeviceModel::CPU,
        Choice::Cuda(_) => DeviceModel::H200,
        Choice::Wgpu(_) => DeviceModel::DESKTOP,
        Choice::Auto | Choice::Software => {
            let opened = devices::open(choice, None)?;
            tell_device(&opened, false);
            opened.device.model()
        }
    };
    Ok(Options { device, ..compile_options(args) })
}

/// The compiler settings for the CPU, and for uses where kernels do not matter.
pub(super) fn compile_options(args: &CompileArgs) -> Options {
    let fuel = args.fuel.unwrap_or(usize::MAX);
    Options { fuse: !args.no_fuse, without: args.without.clone(), fuel, ..Options::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::devices::Next;
    use engine_runtime::device::DeviceError;
    use engine_runtime::session::SessionError;

    /// The result of `work` if one more device can be tried, and the number of tries.
    fn tried(first: impl Fn() -> Failure) -> (Result<&'static str, Failure>, usize) {
        let opened = devices::open(Choice::Cpu, Some(1)).unwrap();
        let used = Opened { next: Some(Next::cpu()), ..opened };
        let mut n_tried = 0;
        let done = on_opened(used, true, |_| {
            n_tried += 1;
            if n_tried == 1 { Err(first()) } else { Ok("done") }
        });
        (done, n_tried)
    }

    #[test]
    fn work_that_another_device_might_do_is_tried_there() {
        let [device, why] = ["a GPU", "unplugged"].map(String::from);
        let (buffer, kernel, reason) = ("x".to_string(), "y".to_string(), "no f64".to_string());
        let errors = [
            DeviceError::out_of_memory(&device, 1 << 40, None),
            DeviceError::TooLarge {
                device: device.clone(),
                buffer,
                bytes: 1 << 40,
                most: 1 << 31,
                span: None,
            },
            DeviceError::Unsupported { device: device.clone(), kernel, reason, span: None },
            DeviceError::Lost { device, why },
        ];
        for error in errors {
            let (done, n_tried) = tried(|| SessionError::Device(error.clone()).into());
            assert_eq!((done.unwrap(), n_tried), ("done", 2), "{error}");
        }
    }

    #[test]
    fn work_that_no_device_can_do_is_not_tried_again() {
        let (done, n_tried) = tried(|| Failure::graph("no such row"));
        assert_eq!((done.unwrap_err().text.as_str(), n_tried), ("error: no such row", 1));
    }

    #[test]
    fn the_last_device_has_the_last_word() {
        let used = devices::open(Choice::Cpu, Some(1)).unwrap();
        let lost = || DeviceError::Lost { device: "a GPU".into(), why: "unplugged".into() };
        let done: Result<(), Failure> = on_opened(used, true, |_| Err(SessionError::Device(lost()).into()));
        assert!(done.unwrap_err().text.contains("a GPU was lost: unplugged"));
    }
}
