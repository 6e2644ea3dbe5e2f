"""What has misled removers of waits, copies and allocations: pairs that are safe, and pairs that are not with their line."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import ProofState

from tests.pure.proof.twins import END, MAIN, in_main, line_text, proof_of

SAFE = {
    "a wait between kernels of one stream": """\
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
    printf("%f", h[0]);
""",
    "a kernel that prints, waited for already": """\
    loud<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDeviceSynchronize());  //-
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    "a pinned staging buffer with another wait before it is written": """\
    float* s; CHECK(cudaMallocHost(&s, n*4));
    for (int k = 0; k < 10; ++k) {
    for (int i = 0; i < n; ++i) s[i] = i + k;
    CHECK(cudaMemcpyAsync(a, s, n*4, cudaMemcpyHostToDevice, 0));
    CHECK(cudaDeviceSynchronize());  //-
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaFreeHost(s));
""",
    "a wait inside what a clock measures": """\
    clock_t t0 = clock();
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
    clock_t t1 = clock();
    printf("%f %ld", h[0], (long)(t1-t0));
""",
    "a free that was a wait nobody needs": """\
    float* t; CHECK(cudaMalloc(&t, n*4));
    cudaStream_t s; CHECK(cudaStreamCreate(&s));
    fill<<<64,256,0,s>>>(a,n);
    CHECK(cudaFree(t));  //-
    CHECK(cudaFreeAsync(t, 0));  //+
    CHECK(cudaMemcpyAsync(h.data(),a,n*4,cudaMemcpyDeviceToHost,s));
    CHECK(cudaStreamSynchronize(s));
""",
    "a round trip to the same buffer": """\
    fill<<<64,256>>>(a,n);
    CHECK(cudaMemcpy(h.data(),a,n*4,cudaMemcpyDeviceToHost));  //-
    CHECK(cudaMemcpy(a,h.data(),n*4,cudaMemcpyHostToDevice));  //-
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
""",
    "a round trip whose source is used instead": """\
    fill<<<64,256>>>(a,n); float* c; CHECK(cudaMalloc(&c, n*4));
    CHECK(cudaMemcpy(h.data(),a,n*4,cudaMemcpyDeviceToHost));  //-
    CHECK(cudaMemcpy(b,h.data(),n*4,cudaMemcpyHostToDevice));  //-
    twice<<<64,256>>>(b,c,n);  //-
    twice<<<64,256>>>(a,c,n);  //+
    CHECK(cudaDeviceSynchronize()); CHECK(cudaFree(c));
""",
    "a pool on the stream of the work": """\
    float* t;
    for (int i = 0; i < 9; ++i) {
    CHECK(cudaMalloc(&t, n*4));  //-
    CHECK(cudaMallocAsync(&t, n*4, 0));  //+
    fill<<<1,1>>>(t,n); twice<<<64,256>>>(t,b,n);
    CHECK(cudaFree(t));  //-
    CHECK(cudaFreeAsync(t, 0));  //+
    }
    CHECK(cudaDeviceSynchronize());
""",
    "an allocation moved out of a loop": """\
    float* t;
    CHECK(cudaMalloc(&t, n*4));  //+
    for (int i = 0; i < 9; ++i) {
    CHECK(cudaMalloc(&t, n*4));  //-
    fill<<<1,1>>>(t,n); twice<<<64,256>>>(t,b,n);
    CHECK(cudaFree(t));  //-
    }
    CHECK(cudaFree(t));  //+
    CHECK(cudaDeviceSynchronize());
""",
    "the last error is asked for later": """\
    fill<<<64,256>>>(a,n);
    cudaDeviceSynchronize();  //-
    if (cudaGetLastError() != cudaSuccess) return 1;
    twice<<<64,256>>>(a,b,n);
    cudaDeviceSynchronize();
    if (cudaGetLastError() != cudaSuccess) return 1;
""",
    "a wait before an event of the same stream": """\
    cudaEvent_t x, y; float ms; CHECK(cudaEventCreate(&x)); CHECK(cudaEventCreate(&y));
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    CHECK(cudaEventRecord(x));
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaEventRecord(y));
    CHECK(cudaEventSynchronize(y));
    CHECK(cudaEventElapsedTime(&ms, x, y)); printf("%f", ms);
""",
    "a device wait narrowed to its stream": """\
    cudaStream_t s; CHECK(cudaStreamCreate(&s));
    float* p; CHECK(cudaMallocHost(&p, n*4));
    fill<<<64,256,0,s>>>(a,n);
    CHECK(cudaMemcpyAsync(p,a,n*4,cudaMemcpyDeviceToHost,s));
    CHECK(cudaDeviceSynchronize());  //-
    CHECK(cudaStreamSynchronize(s));  //+
    printf("%f", p[0]); CHECK(cudaFreeHost(p));
""",
    "swapped buffers on one stream": """\
    for (int i = 0; i < 100; ++i) {
    fill<<<1, 256>>>(a, n);
    CHECK(cudaDeviceSynchronize());  //-
    twice<<<1, 256>>>(a, b, n);
    CHECK(cudaDeviceSynchronize());  //-
    std::swap(a, b);
    }
    CHECK(cudaDeviceSynchronize());
""",
}

UNSAFE = {
    "a kernel that prints": """\
    loud<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //! //-
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    "a pointer handed to MPI": """\
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    MPI_Send(a, n, 0, 1, 0, 0);  //!
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    "a pinned staging buffer that is written again": """\
    float* s; CHECK(cudaMallocHost(&s, n*4));
    for (int k = 0; k < 10; ++k) {
    for (int i = 0; i < n; ++i) s[i] = i + k;  //!
    CHECK(cudaMemcpyAsync(a, s, n*4, cudaMemcpyHostToDevice, 0));
    CHECK(cudaDeviceSynchronize());  //-
    twice<<<64,256>>>(a,b,n);
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFreeHost(s));
""",
    "a pinned staging buffer that memset writes": """\
    float* s; CHECK(cudaMallocHost(&s, n*4));
    for (int k = 0; k < 10; ++k) {
    memset(s, k, n*4);  //!
    CHECK(cudaMemcpyAsync(a, s, n*4, cudaMemcpyHostToDevice, 0));
    CHECK(cudaDeviceSynchronize());  //-
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFreeHost(s));
""",
    "mapped memory read by the host": """\
    float* s;
    float* ds;
    CHECK(cudaHostAlloc(&s, n*4, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&ds, s, 0));
    fill<<<64,256>>>(ds,n);
    CHECK(cudaDeviceSynchronize());  //-
    printf("%f", s[0]);  //!
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFreeHost(s));
""",
    "managed memory read by the host": """\
    float* s; CHECK(cudaMallocManaged(&s, n*4));
    fill<<<64,256>>>(s,n);
    CHECK(cudaDeviceSynchronize());  //-
    printf("%f", s[0]);  //!
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(s));
""",
    "a loop that ends by what the device wrote": """\
    float* s; CHECK(cudaMallocHost(&s, n*4)); s[0] = 1;
    while (s[0] > 0) {  //!
    fill<<<64,256>>>(a,n);
    CHECK(cudaMemcpyAsync(s, a, 4, cudaMemcpyDeviceToHost, 0));
    CHECK(cudaDeviceSynchronize());  //-
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFreeHost(s));
""",
    "the last error check": """\
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
""",
    "a clock read before the work is done": """\
    clock_t t0 = clock();
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    clock_t t1 = clock();  //!
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
    printf("%f %ld", h[0], (long)(t1-t0));
""",
    "a free that was a wait between streams": """\
    float* t; CHECK(cudaMalloc(&t, n*4));  //-
    float* t; CHECK(cudaMallocAsync(&t, n*4, 0));  //+
    cudaStream_t s, r;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaStreamCreate(&r));
    fill<<<64,256,0,r>>>(a,n);
    CHECK(cudaFree(t));  //-
    CHECK(cudaFreeAsync(t, 0));  //+
    twice<<<64,256,0,s>>>(a,b,n);  //!
    CHECK(cudaDeviceSynchronize());
""",
    "an early return before the next check": """\
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    if (h[3] > 2) return 3;
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    "an exception before the next check": """\
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    if (h[3] > 2) throw 3;  //!
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    "a break before the next check": """\
    for (int i = 0; i < 5; ++i) { fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    if (h[i] > 2) break;
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost)); }
""",
    "another stream": """\
    cudaStream_t s, r; CHECK(cudaStreamCreate(&s)); CHECK(cudaStreamCreate(&r));
    fill<<<64,256,0,s>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    twice<<<64,256,0,r>>>(a,b,n);  //!
    CHECK(cudaDeviceSynchronize());
""",
    "another stream and another name": """\
    float* c = a; cudaStream_t s, r; CHECK(cudaStreamCreate(&s)); CHECK(cudaStreamCreate(&r));
    fill<<<64,256,0,s>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    twice<<<64,256,0,r>>>(c,b,n);  //!
    CHECK(cudaDeviceSynchronize());
""",
    "the next wait is not checked": """\
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    cudaDeviceSynchronize();  //!
""",
    "launches in another order": """\
    fill<<<64,256>>>(a,n);  //-
    twice<<<64,256>>>(a,b,n);  //!
    fill<<<64,256>>>(a,n);  //+
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    "pointers swapped": """\
    twice<<<64,256>>>(a,b,n);  //-
    twice<<<64,256>>>(b,a,n);  //! //+
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    "an upload dropped": """\
    CHECK(cudaMemcpy(a,h.data(),n*4,cudaMemcpyHostToDevice));  //! //-
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
""",
    "a second free": """\
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(a));  //+
""",
    "a free too early": """\
    CHECK(cudaFree(a));  //+
    twice<<<64,256>>>(a,b,n);  //!
    CHECK(cudaDeviceSynchronize());
""",
    "a round trip that restores": """\
    fill<<<64,256>>>(a,n);
    CHECK(cudaMemcpy(h.data(),a,n*4,cudaMemcpyDeviceToHost));  //-
    fill<<<32,128>>>(a,n);  //!
    CHECK(cudaMemcpy(a,h.data(),n*4,cudaMemcpyHostToDevice));  //-
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
""",
    "a round trip whose target is still used": """\
    fill<<<64,256>>>(a,n);
    CHECK(cudaMemcpy(h.data(),a,n*4,cudaMemcpyDeviceToHost));  //-
    CHECK(cudaMemcpy(b,h.data(),n*4,cudaMemcpyHostToDevice));  //! //-
    twice<<<64,256>>>(b,a,n);
    CHECK(cudaDeviceSynchronize());
""",
    "the source changed in between": """\
    fill<<<64,256>>>(a,n); float* c; CHECK(cudaMalloc(&c, n*4));
    CHECK(cudaMemcpy(h.data(),a,n*4,cudaMemcpyDeviceToHost));  //-
    fill<<<1,1>>>(a,n);
    CHECK(cudaMemcpy(b,h.data(),n*4,cudaMemcpyHostToDevice));  //-
    twice<<<64,256>>>(b,c,n);  //-
    twice<<<64,256>>>(a,c,n);  //! //+
    CHECK(cudaDeviceSynchronize()); CHECK(cudaFree(c));
""",
    "the source changed afterwards": """\
    fill<<<64,256>>>(a,n); float* c; CHECK(cudaMalloc(&c, n*4));
    CHECK(cudaMemcpy(h.data(),a,n*4,cudaMemcpyDeviceToHost));  //-
    CHECK(cudaMemcpy(b,h.data(),n*4,cudaMemcpyHostToDevice));  //-
    fill<<<1,1>>>(a,n);
    twice<<<64,256>>>(b,c,n);  //-
    twice<<<64,256>>>(a,c,n);  //! //+
    CHECK(cudaDeviceSynchronize()); CHECK(cudaFree(c));
""",
    "the target changed, the source read later": """\
    fill<<<64,256>>>(a,n); float* c; CHECK(cudaMalloc(&c, n*4));
    CHECK(cudaMemcpy(h.data(),a,n*4,cudaMemcpyDeviceToHost));  //-
    CHECK(cudaMemcpy(b,h.data(),n*4,cudaMemcpyHostToDevice));  //-
    fill<<<1,1>>>(b,n);  //-
    fill<<<1,1>>>(a,n);  //+
    twice<<<64,256>>>(a,c,n);  //!
    CHECK(cudaDeviceSynchronize()); CHECK(cudaFree(c));
""",
    "a pool on another stream": """\
    float* t; cudaStream_t s; CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (int i = 0; i < 9; ++i) {
    CHECK(cudaMalloc(&t, n*4));  //-
    CHECK(cudaMallocAsync(&t, n*4, 0));  //+
    fill<<<1,1,0,s>>>(t,n); twice<<<64,256,0,s>>>(t,b,n);  //!
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaFree(t));  //-
    CHECK(cudaFreeAsync(t, 0));  //+
    }
    CHECK(cudaDeviceSynchronize());
""",
    "nothing frees any more": """\
    float* t;
    for (int i = 0; i < 9; ++i) {
    CHECK(cudaMalloc(&t, n*4));  //-
    CHECK(cudaMallocAsync(&t, n*4, 0));  //! //+
    fill<<<1,1>>>(t,n); twice<<<64,256>>>(t,b,n);
    CHECK(cudaFree(t));  //-
    }
    CHECK(cudaDeviceSynchronize());
""",
    "an allocation moved out of a loop, its free not": """\
    float* t;
    CHECK(cudaMalloc(&t, n*4));  //+
    for (int i = 0; i < 9; ++i) {
    CHECK(cudaMalloc(&t, n*4));  //-
    fill<<<1,1>>>(t,n); twice<<<64,256>>>(t,b,n);  //!
    CHECK(cudaFree(t));
    }
    CHECK(cudaDeviceSynchronize());
""",
    "an allocation moved out of a loop over streams": """\
    float* t; cudaStream_t s[2]; for (int k = 0; k < 2; ++k) CHECK(cudaStreamCreate(&s[k]));
    CHECK(cudaMalloc(&t, n*4));  //+
    for (int i = 0; i < 9; ++i) {
    CHECK(cudaMalloc(&t, n*4));  //-
    fill<<<1,1,0,s[i%2]>>>(t,n); twice<<<64,256,0,s[i%2]>>>(t,b,n);  //!
    CHECK(cudaFree(t));  //-
    }
    CHECK(cudaFree(t));  //+
    CHECK(cudaDeviceSynchronize());
""",
    "the last error is asked for too early": """\
    fill<<<64,256>>>(a,n);
    cudaDeviceSynchronize();  //-
    if (cudaGetLastError() != cudaSuccess) return 1;
    twice<<<64,256>>>(a,b,n);
    cudaDeviceSynchronize();  //!
""",
    "a device wait narrowed to another stream": """\
    cudaStream_t s, r; CHECK(cudaStreamCreate(&s)); CHECK(cudaStreamCreate(&r));
    float* p; CHECK(cudaMallocHost(&p, n*4));
    fill<<<64,256,0,s>>>(a,n);
    CHECK(cudaMemcpyAsync(p,a,n*4,cudaMemcpyDeviceToHost,s));
    CHECK(cudaDeviceSynchronize());  //-
    CHECK(cudaStreamSynchronize(r));  //+
    printf("%f", p[0]); CHECK(cudaFreeHost(p));  //!
""",
    "a wait moved behind a read": """\
    cudaStream_t s; CHECK(cudaStreamCreate(&s));
    float* p; CHECK(cudaMallocHost(&p, n*4));
    fill<<<64,256,0,s>>>(a,n);
    CHECK(cudaMemcpyAsync(p,a,n*4,cudaMemcpyDeviceToHost,s));
    CHECK(cudaStreamSynchronize(s));  //-
    printf("%f", p[0]);  //!
    CHECK(cudaStreamSynchronize(s));  //+
    CHECK(cudaFreeHost(p));
""",
    "a ring of staging buffers": """\
    float* pin[3];
    cudaEvent_t ev[3];
    for (int k = 0; k < 3; ++k) {
        CHECK(cudaMallocHost(&pin[k], n*4));
        CHECK(cudaEventCreateWithFlags(&ev[k], cudaEventDisableTiming));
    }
    for (int i = 0; i < 100; ++i) {
    CHECK(cudaEventSynchronize(ev[i % 3]));  //-
    for (int j = 0; j < n; ++j) pin[i % 3][j] = i;  //!
    CHECK(cudaMemcpyAsync(a, pin[i % 3], n*4, cudaMemcpyHostToDevice, 0));
    CHECK(cudaEventRecord(ev[i % 3], 0));
    }
    CHECK(cudaDeviceSynchronize());
""",
    "swapped buffers on two streams": """\
    cudaStream_t s1, s2;
    CHECK(cudaStreamCreate(&s1));
    CHECK(cudaStreamCreate(&s2));
    cudaEvent_t e;
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    float* o;
    CHECK(cudaMalloc(&o, n*4));
    for (int i = 0; i < 100; ++i) {
    fill<<<1, 256, 0, s1>>>(a, n);  //!
    CHECK(cudaEventRecord(e, s1)); CHECK(cudaStreamWaitEvent(s2, e, 0));
    twice<<<1, 256, 0, s2>>>(a, o, n);
    CHECK(cudaDeviceSynchronize());  //-
    std::swap(a, b);
    }
    CHECK(cudaDeviceSynchronize());
""",
    "buffers swapped by hand": """\
    cudaStream_t s1, s2;
    CHECK(cudaStreamCreate(&s1));
    CHECK(cudaStreamCreate(&s2));
    cudaEvent_t e;
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    float* o;
    CHECK(cudaMalloc(&o, n*4));
    for (int i = 0; i < 100; ++i) {
    fill<<<1, 256, 0, s1>>>(a, n);  //!
    CHECK(cudaEventRecord(e, s1)); CHECK(cudaStreamWaitEvent(s2, e, 0));
    twice<<<1, 256, 0, s2>>>(a, o, n);
    CHECK(cudaDeviceSynchronize());  //-
    float* c = a; a = b; b = c;
    }
    CHECK(cudaDeviceSynchronize());
""",
    "a ring of staging buffers by hand": """\
    float* pin[3];
    cudaEvent_t ev[3];
    for (int k = 0; k < 3; ++k) {
        CHECK(cudaMallocHost(&pin[k], n*4));
        CHECK(cudaEventCreateWithFlags(&ev[k], cudaEventDisableTiming));
    }
    int cur = 0;
    for (int i = 0; i < 100; ++i) {
    CHECK(cudaEventSynchronize(ev[cur]));  //! //-
    for (int j = 0; j < n; ++j) pin[cur][j] = i;  //!
    CHECK(cudaMemcpyAsync(a, pin[cur], n*4, cudaMemcpyHostToDevice, 0));
    CHECK(cudaEventRecord(ev[cur], 0));
    cur = (cur + 1) % 3;
    }
    CHECK(cudaDeviceSynchronize());
""",
}

UNKNOWN = {
    "code that is not here, after": """\
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    ship(a, n);  //!
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    "code that is not here, before": """\
    ship(h.data(), n);  //!
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());  //-
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    "a wait inside a macro": """\
    #define STEP(x) x; CHECK(cudaDeviceSynchronize())
    STEP((fill<<<64,256>>>(a,n)));  //! //-
    fill<<<64,256>>>(a,n);  //+
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    "a launch dropped": """\
    fill<<<64,256>>>(a,n);
    twice<<<64,256>>>(a,b,n);  //! //-
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    "a number changed": """\
    fill<<<64,256>>>(a,n);  //-
    fill<<<64,256>>>(a,n-1);  //! //+
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
    "the host writes in between": """\
    fill<<<64,256>>>(a,n);
    CHECK(cudaMemcpy(h.data(),a,n*4,cudaMemcpyDeviceToHost));  //-
    h[3] = 2;  //!
    CHECK(cudaMemcpy(a,h.data(),n*4,cudaMemcpyHostToDevice));  //-
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
""",
    "the host reads": """\
    fill<<<64,256>>>(a,n);
    CHECK(cudaMemcpy(h.data(),a,n*4,cudaMemcpyDeviceToHost));  //-
    CHECK(cudaMemcpy(a,h.data(),n*4,cudaMemcpyHostToDevice));  //-
    printf("%f",h[0]);  //!
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
""",
    "code that is not here may have started work": """\
    float* s; CHECK(cudaMallocHost(&s, n*4)); start_async(s);  //!
    CHECK(cudaDeviceSynchronize());  //-
    printf("%f", s[0]);
    fill<<<64,256>>>(a,n);
    CHECK(cudaDeviceSynchronize());
""",
    "a round trip of a part": """\
    fill<<<64,256>>>(a,n); float* c; CHECK(cudaMalloc(&c, n*4));
    CHECK(cudaMemcpy(h.data(),a,n*2,cudaMemcpyDeviceToHost));  //-
    CHECK(cudaMemcpy(b,h.data(),n*2,cudaMemcpyHostToDevice));  //! //-
    twice<<<64,256>>>(b,c,n);  //-
    twice<<<64,256>>>(a,c,n);  //+
    CHECK(cudaDeviceSynchronize()); CHECK(cudaFree(c));
""",
    "a number hidden": """\
    fill<<<64,256>>>(a,n);
    int n = 5;  //! //+
    twice<<<64,256>>>(a,b,n);
    CHECK(cudaDeviceSynchronize());
""",
    "freed in stream order what cudaMalloc gave": """\
    float* t;
    for (int i = 0; i < 9; ++i) {
    CHECK(cudaMalloc(&t, n*4));
    fill<<<1,1>>>(t,n); twice<<<64,256>>>(t,b,n);
    CHECK(cudaFree(t));  //-
    CHECK(cudaFreeAsync(t, 0));  //! //+
    }
    CHECK(cudaDeviceSynchronize());
""",
    "an allocation moved out of a loop, read first": """\
    float* t;
    CHECK(cudaMalloc(&t, n*4));  //+
    for (int i = 0; i < 9; ++i) {
    CHECK(cudaMalloc(&t, n*4));  //-
    twice<<<64,256>>>(t,b,n); fill<<<1,1>>>(t,n);  //!
    CHECK(cudaFree(t));  //-
    }
    CHECK(cudaFree(t));  //+
    CHECK(cudaDeviceSynchronize());
""",
    "an object that may measure": """\
    fill<<<64,256>>>(a,n);
    { Timer t;  //!
    CHECK(cudaDeviceSynchronize());  //-
    }
    CHECK(cudaMemcpy(h.data(),b,n*4,cudaMemcpyDeviceToHost));
""",
}


@pytest.mark.parametrize("body", SAFE.values(), ids=SAFE.keys())
def test_safe(body: str) -> None:
    proof = proof_of(in_main(body))
    assert proof.state is ProofState.PROVED, proof.findings
    assert not proof.findings


@pytest.mark.parametrize("body", UNSAFE.values(), ids=UNSAFE.keys())
def test_unsafe(body: str) -> None:
    _assert_found(in_main(body), ProofState.FAILED)


@pytest.mark.parametrize("body", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_unknown(body: str) -> None:
    _assert_found(in_main(body), ProofState.UNTESTED)


def test_the_first_call_creates_the_context() -> None:
    _assert_found(
        in_main("").replace("    float *a, *b;", "    CHECK(cudaDeviceSynchronize());  //! //-\n    float *a, *b;"),
        ProofState.UNTESTED,
    )


def _assert_found(text: str, state: ProofState) -> None:
    proof = proof_of(text)
    assert proof.state is state, proof.findings
    lines = [line_text(text, f) for f in proof.findings]
    # What goes wrong only when the program ends or frees is told where it ends or frees.
    expected = [line for line in text.splitlines() if "//!" in line] or [MAIN.splitlines()[0], END.splitlines()[0]]
    assert lines[0] in expected, (lines, proof.findings)
