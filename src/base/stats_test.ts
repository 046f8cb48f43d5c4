import assert from "node:assert/strict";
import { test } from "node:test";
import { formatPrometheus, mergeStats, type Sample, Stats } from "./stats.ts";

test("Stats gives the same handle for the same name and labels, in any order", () => {
  const stats = new Stats();
  const one = stats.counter("c", "help", { a: "1", b: "2" });
  const same = stats.counter("c", "help", { b: "2", a: "1" });
  const other = stats.counter("c", "help", { a: "1", b: "3" });
  one.add(1);
  same.add(2);
  assert.equal(one.value, 3);
  assert.equal(other.value, 0);
});

test("Stats keeps labels apart that only look alike when joined", () => {
  const stats = new Stats();
  stats.counter("c", "help", { a: "x\u0001b=y" }).add(1);
  stats.counter("c", "help", { a: "x", b: "y" }).add(1);
  assert.deepEqual(stats.samples().map(({ value }) => value), [1, 1]);
});

test("Stats.gauge() goes up, down and to a value", () => {
  const gauge = new Stats().gauge("g", "help");
  gauge.add(5);
  gauge.add(-2);
  assert.equal(gauge.value, 3);
  gauge.set(10);
  assert.equal(gauge.value, 10);
});

test("Stats.remove() forgets one label set", () => {
  const stats = new Stats();
  stats.counter("c", "help", { a: "1" }).add(1);
  stats.counter("c", "help", { a: "2" }).add(2);
  stats.remove("c", { a: "1" });
  stats.remove("c", { a: "9" });
  stats.remove("nothing", {});
  assert.deepEqual(stats.samples().map(({ labels }) => labels), [{ a: "2" }]);
});

test("Stats counts what is too many together, and loses nothing", () => {
  const stats = new Stats();
  for (let i = 0; i < 5_000; i++) stats.counter("c", "help", { peer: `p${i}` }).add(1);
  const samples = stats.samples();
  assert.equal(samples.length, 2_001);
  assert.deepEqual(samples.at(-1)?.labels, { overflow: "true" });
  assert.equal(samples.at(-1)?.value, 3_000);
  stats.counter("c", "help", { peer: "p0" }).add(1);
  assert.equal(stats.samples()[0]?.value, 2);
});

test("mergeStats() adds samples with the same name and labels", () => {
  const sample = (name: string, labels: Record<string, string>, value: number): Sample => ({
    name,
    kind: "counter",
    help: "help",
    labels,
    value,
  });
  const merged = mergeStats([
    [sample("c", { a: "1" }, 1), sample("c", { a: "2" }, 10), sample("d", { a: "1" }, 5)],
    [],
    [sample("c", { a: "1" }, 2), sample("e", {}, 7)],
  ]);
  assert.deepEqual(merged.map(({ name, labels, value }) => [name, labels, value]), [
    ["c", { a: "1" }, 3],
    ["c", { a: "2" }, 10],
    ["d", { a: "1" }, 5],
    ["e", {}, 7],
  ]);
});

test("formatPrometheus() writes families in order, each with its help and type once", () => {
  const stats = new Stats();
  stats.gauge("open", "Open connections").set(2);
  stats.counter("closed_total", "Closed connections", { by: "peer" }).add(3);
  stats.counter("closed_total", "Closed connections", { by: "us", why: "idle" }).add(4);
  assert.equal(
    formatPrometheus(stats.samples()),
    `# HELP postern_closed_total Closed connections
# TYPE postern_closed_total counter
postern_closed_total{by="peer"} 3
postern_closed_total{by="us",why="idle"} 4
# HELP postern_open Open connections
# TYPE postern_open gauge
postern_open 2
`,
  );
});

for (
  const [name, value, want] of [
    ["quotes", 'a"b', 'a\\"b'],
    ["backslashes", "a\\b", "a\\\\b"],
    ["line ends", 'a\nforged{x="1"} 9', 'a\\nforged{x=\\"1\\"} 9'],
    ["a backslash before a quote", '\\"', '\\\\\\"'],
  ] as const
) {
  test(`formatPrometheus() escapes ${name} in label values`, () => {
    const stats = new Stats();
    stats.counter("c", "help", { a: value });
    assert.equal(
      formatPrometheus(stats.samples()),
      `# HELP postern_c help\n# TYPE postern_c counter\npostern_c{a="${want}"} 0\n`,
    );
  });
}

test("formatPrometheus() escapes the help text and writes infinity as it must", () => {
  const stats = new Stats();
  stats.gauge("g", "one\\two\nthree").set(Infinity);
  assert.equal(
    formatPrometheus(stats.samples()),
    "# HELP postern_g one\\\\two\\nthree\n# TYPE postern_g gauge\npostern_g +Inf\n",
  );
});

test("formatPrometheus() of nothing is empty", () => assert.equal(formatPrometheus([]), ""));
