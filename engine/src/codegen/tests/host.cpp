// The threads of a block as fibers, and the files of buffers.
#include "cuda_runtime.h"
#include <cstdio>
#include <ucontext.h>

uint3 threadIdx, blockIdx, blockDim, gridDim;
alignas(1024) unsigned char dynamic_shared_mem[1 << 18];
void (*body)();

static const unsigned MOST_THREADS = 1024, STACK_BYTES = 1 << 16;
static ucontext_t fibers[MOST_THREADS], scheduler;
static bool done[MOST_THREADS];

void turn() {
    const uint3 self = threadIdx;
    swapcontext(&fibers[self.x], &scheduler);
    threadIdx = self;
}

// All threads of a block go on in the same round, the one after the last of them has come, however many exchanges the
// planes made before: lanes of a plane stay in step.
unsigned this_round;
static unsigned n_arrived, open_round;
void __syncthreads() {
    const unsigned before = open_round;
    if (++n_arrived == blockDim.x) {
        n_arrived = 0;
        open_round = this_round + 1;
    }
    do turn(); while (open_round == before || this_round < open_round);
}

void launch(unsigned n_blocks, unsigned n_threads) {
    gridDim = {n_blocks, 1, 1};
    blockDim = {n_threads, 1, 1};
    char *stacks = (char *)std::malloc(n_threads * STACK_BYTES);
    for (unsigned block = 0; block < n_blocks; ++block) {
        blockIdx = {block, 0, 0};
        std::memset(done, 0, sizeof done);
        for (unsigned t = 0; t < n_threads; ++t) {
            getcontext(&fibers[t]);
            fibers[t].uc_stack.ss_sp = stacks + t * STACK_BYTES;
            fibers[t].uc_stack.ss_size = STACK_BYTES;
            fibers[t].uc_link = &scheduler;
            makecontext(&fibers[t], +[] { const unsigned t = threadIdx.x; body(); done[t] = true; }, 0);
        }
        for (unsigned n_done = 0; n_done < n_threads;) {
            n_done = 0;
            ++this_round;
            for (unsigned t = 0; t < n_threads; ++t) {
                if (!done[t]) {
                    threadIdx = {t, 0, 0};
                    swapcontext(&scheduler, &fibers[t]);
                }
                n_done += done[t];
            }
        }
    }
}

void *read_buffer(const char *name, size_t bytes) {
    void *memory = std::calloc(bytes + 64, 1);
    FILE *file = std::fopen(name, "rb");
    if (!file || std::fread(memory, 1, bytes, file) != bytes) std::abort();
    std::fclose(file);
    return memory;
}
void write_buffer(const char *name, const void *memory, size_t bytes) {
    FILE *file = std::fopen(name, "wb");
    if (!file || std::fwrite(memory, 1, bytes, file) != bytes) std::abort();
    std::fclose(file);
}
