import assert from "node:assert/strict";
import { test } from "node:test";
import { heapSamples, processSamples } from "./process_samples.ts";

test("processSamples() has Prometheus' standard metrics of a process, with values of this one", () => {
  const samples = processSamples({ openFilesLimit: 1_024, build: { version: "1" } });
  const value = (name: string) => samples.find((sample) => sample.name === name)?.value ?? NaN;
  const MIB = 1 << 20;
  for (
    const [name, from, to] of [
      ["process_cpu_seconds_total", 0.01, 36_000],
      ["process_resident_memory_bytes", MIB, 2 ** 40],
      ["process_virtual_memory_bytes", value("process_resident_memory_bytes"), 2 ** 50],
      ["process_threads", 2, 1_000],
      ["process_start_time_seconds", Date.now() / 1_000 - 36_000, Date.now() / 1_000],
      ["process_open_fds", 3, 100_000],
      ["process_max_fds", 1_024, 1_024],
      ["build_info", 1, 1],
    ] as const
  ) assert.ok(value(name) >= from && value(name) <= to, `${name} is ${value(name)}`);
  assert.deepEqual(samples.find(({ name }) => name === "build_info")?.labels, { version: "1" });
});

test("processSamples() leaves out what the system does not tell", () => {
  const samples = processSamples({ openFilesLimit: undefined, build: {} });
  assert.ok(!samples.some(({ name }) => name === "process_max_fds"));
});

test("heapSamples() has the heap of this thread", () => {
  const [used, size] = heapSamples();
  assert.ok(used && used.value > 1_000);
  assert.ok(size && size.value > 1_000);
});
