// A driver, a compiler and a library of products that do nothing, or fail as STUB_FAULT says: enough of CUDA to see what
// the engine makes of a machine on which something is wrong. Compiled as libcuda.so, libnvrtc.so and libcublasLt.so.

#include <stdlib.h>
#include <string.h>

typedef unsigned long long u64;

static int is(const char *fault) {
    const char *wanted = getenv("STUB_FAULT");
    return wanted && strcmp(wanted, fault) == 0;
}

// ---- The driver.

int cuInit(unsigned flags) { return is("no_gpu") ? 100 : 0; }
int cuDriverGetVersion(int *version) { *version = is("old_driver") ? 11040 : 13000; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int n, int device) { strncpy(name, "Stub GPU", n); return 0; }
int cuDeviceTotalMem_v2(u64 *bytes, int device) { *bytes = 1ull << 36; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    // Compute capability 9.0 unless its number is the fault, and one of everything else.
    int major = is("old_gpu") ? 6 : is("new_gpu") ? 19 : 9;
    *value = attribute == 75 ? major : attribute == 76 ? 0 : 1;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = (void *)1;
    return is("exclusive") ? 46 : is("full") ? 2 : 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)1; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuGetErrorString(int error, const char **text) {
    *text = error == 719 ? "unspecified launch failure" : "some error";
    return 0;
}
int cuGetErrorName(int error, const char **text) { *text = "CUDA_ERROR"; return 0; }

int cuMemGetInfo_v2(u64 *available, u64 *all) { *available = 5ull << 20; *all = 1ull << 36; return 0; }
int cuMemAlloc_v2(u64 *start, u64 bytes) {
    if (is("memory") && bytes > 5 << 20) return 2;
    *start = (u64)calloc(bytes, 1);
    return 0;
}
int cuMemFree_v2(u64 start) { free((void *)start); return 0; }
int cuMemHostAlloc(void **start, u64 bytes, unsigned flags) {
    *start = calloc(bytes, 1);
    return is("pinned_memory") ? 2 : 0;
}
int cuMemFreeHost(void *start) { free(start); return 0; }
int cuMemsetD8Async(u64 start, unsigned char value, u64 n, void *stream) { memset((void *)start, value, n); return 0; }
int cuMemcpyHtoDAsync_v2(u64 to, const void *from, u64 n, void *stream) { memcpy((void *)to, from, n); return 0; }
int cuMemcpyDtoHAsync_v2(void *to, u64 from, u64 n, void *stream) { memcpy(to, (void *)from, n); return 0; }

int cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)1; return 0; }
int cuStreamDestroy_v2(void *stream) { return 0; }
static int n_launched;
int cuStreamSynchronize(void *stream) { return is("lost") && n_launched > 0 ? 719 : 0; }
int cuStreamQuery(void *stream) { return cuStreamSynchronize(stream); }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return 0; }
int cuEventCreate(void **event, unsigned flags) { *event = (void *)1; return 0; }
int cuEventDestroy_v2(void *event) { return 0; }
int cuEventElapsedTime_v2(float *milliseconds, void *start, void *end) { *milliseconds = 1; return 0; }
int cuEventRecord(void *event, void *stream) { return 0; }
int cuEventSynchronize(void *event) { return 0; }

int cuModuleLoadData(void **module, const char *code) {
    const char *refused = getenv("STUB_REFUSES");
    *module = (void *)1;
    if (is("code_memory")) return 2;
    return refused && strncmp(code, refused, strlen(refused)) == 0 ? 209 : 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = (void *)1; return 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
    n_launched++;
    return is("launch_memory") ? 2 : 0;
}
int cuLaunchKernelEx(const void *config, void *function, void **arguments, void **extra) {
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, extra);
}

// ---- The compiler.

static const char *code(void) { const char *code = getenv("STUB_CODE"); return code ? code : "code"; }
static const char *said = "kernel.cu(1): error: the stub refuses everything";

int nvrtcVersion(int *major, int *minor) { *major = is("new_compiler") ? 99 : 12; *minor = 8; return 0; }
int nvrtcGetNumSupportedArchs(int *n) { *n = 3; return 0; }
int nvrtcGetSupportedArchs(int *known) { known[0] = 75; known[1] = 90; known[2] = 120; return 0; }
int nvrtcCreateProgram(void **program, const char *text, const char *name, int n, const char **headers,
                       const char **names) {
    // Programs are of two kinds: the engine's own, and those of the graph's ops.
    *program = (void *)(strstr(text, "number_steps") ? 1ull : 2ull);
    return 0;
}
int nvrtcCompileProgram(void *program, int n, const char **options) {
    const char *wanted = is("new_gpu") ? "--gpu-architecture=compute_120" : "--gpu-architecture=sm_90a";
    if (strcmp(options[0], wanted) != 0) return 5;
    return is("compile") && program == (void *)2 ? 6 : 0;
}
int nvrtcGetProgramLogSize(void *program, size_t *n) { *n = strlen(said) + 1; return 0; }
int nvrtcGetProgramLog(void *program, char *log) { strcpy(log, said); return 0; }
int nvrtcGetCUBINSize(void *program, size_t *n) { *n = strlen(code()) + 1; return 0; }
int nvrtcGetCUBIN(void *program, char *to) { strcpy(to, code()); return 0; }
int nvrtcGetPTXSize(void *program, size_t *n) { return nvrtcGetCUBINSize(program, n); }
int nvrtcGetPTX(void *program, char *to) { return nvrtcGetCUBIN(program, to); }
int nvrtcDestroyProgram(void **program) { return 0; }
const char *nvrtcGetErrorString(int error) { return "NVRTC_ERROR"; }

// ---- The library of products.

int cublasLtCreate(void **handle) { *handle = (void *)1; return 0; }
int cublasLtDestroy(void *handle) { return 0; }
size_t cublasLtGetVersion(void) { return 130002; }
