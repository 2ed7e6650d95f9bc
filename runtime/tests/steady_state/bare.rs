//! Bare wgpu: the host allocations of dispatches without our code around them.

/// A minimal kernel on two buffers.
const TEXT: &str = "
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64)
fn step(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = x[id.x] + 1u; }
";

/// Dispatches, each with its own pipeline and bindings, like those of kernels.
pub struct Bare {
    device: wgpu::Device,
    queue: wgpu::Queue,
    dispatches: Vec<(wgpu::ComputePipeline, wgpu::BindGroup)>,
    numbers: wgpu::Buffer,
}

/// Bytes between the number of a step and the next.
const NUMBER_BYTES: usize = 256;

impl Bare {
    /// Opens the first adapter of any kind.
    pub fn new(n_dispatches: usize) -> Option<Bare> {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::PRIMARY;
        descriptor.flags = wgpu::InstanceFlags::empty();
        let instance = wgpu::Instance::new(descriptor);
        let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
        let opened = adapters.first()?.request_device(&wgpu::DeviceDescriptor::default());
        let (device, queue) = pollster::block_on(opened).ok()?;
        let text = wgpu::ShaderSource::Wgsl(TEXT.into());
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source: text });
        let buffer = || {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: 1 << 10,
                usage: wgpu::BufferUsages::STORAGE,
                mapped_at_creation: false,
            })
        };
        let (x, y) = (buffer(), buffer());
        let dispatch = |number: usize| {
            let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: None,
                layout: None,
                module: &module,
                entry_point: Some("step"),
                compilation_options: Default::default(),
                cache: None,
            });
            // Each dispatch reads the result of the one before.
            let (from, to) = if number.is_multiple_of(2) { (&x, &y) } else { (&y, &x) };
            let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &pipeline.get_bind_group_layout(0),
                entries: &[
                    wgpu::BindGroupEntry { binding: 0, resource: from.as_entire_binding() },
                    wgpu::BindGroupEntry { binding: 1, resource: to.as_entire_binding() },
                ],
            });
            (pipeline, group)
        };
        let dispatches = (0..n_dispatches).map(dispatch).collect();
        let numbers = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 16 * NUMBER_BYTES as u64,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        Some(Bare { device, queue, dispatches, numbers })
    }

    /// Submits the given numbers of steps, at most 16 each, writes their step numbers, and waits for them.
    pub fn run(&self, submissions: &[usize]) {
        for &n_steps in submissions {
            self.queue.write_buffer(&self.numbers, 0, &[0; 16 * NUMBER_BYTES]);
            let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                for (pipeline, group) in (0..n_steps).flat_map(|_| &self.dispatches) {
                    pass.set_pipeline(pipeline);
                    pass.set_bind_group(0, group, &[]);
                    pass.dispatch_workgroups(1, 1, 1);
                }
            }
            self.queue.submit([encoder.finish()]);
        }
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("all of it ends");
    }
}
