import assert from "node:assert/strict";
import { test } from "node:test";
import { BUCKETS_MS, formatPrometheus, mergeStats, type Sample, Stats } from "./stats.ts";

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

test("Stats keeps labels apart that are equal when joined", () => {
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

test("Stats counts label sets above the limit together", () => {
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

test("Stats.histogram() counts values by bucket, and adds them up without rounding", () => {
  const stats = new Stats();
  const histogram = stats.histogram("d_ms", "help", { a: "1" });
  assert.equal(stats.histogram("d_ms", "help", { a: "1" }), histogram);
  // On a bound, just above one, below all, above all, and values that are no duration.
  for (const ms of [0.5, 0.501, 5, 0, 3_600_000, 3_600_000.001, -1, NaN]) histogram.observe(ms);
  const [sample] = stats.samples();
  assert.equal(sample?.kind, "histogram");
  assert.deepEqual(
    BUCKETS_MS.map((bound, bucket) => [bound, sample?.counts?.[bucket]]).filter(([, n]) => n !== 0),
    [[0.5, 4], [1, 1], [5, 1], [3_600_000, 1]],
  );
  assert.equal(sample?.counts?.at(-1), 1);
  assert.equal(sample?.value, 7_200_006.002);
  for (let i = 0; i < 1_000; i++) stats.histogram("tenths_ms", "help").observe(0.1);
  assert.equal(stats.samples().at(-1)?.value, 100);
  histogram.observe(Infinity);
  assert.ok(Number.isFinite(stats.samples()[0]?.value));
});

test("mergeStats() adds the histograms of all workers bucket by bucket", () => {
  const worker = (...values: number[]) => {
    const stats = new Stats();
    const histogram = stats.histogram("d_ms", "help", { listener: "inbound" });
    for (const ms of values) histogram.observe(ms);
    // As sent by a worker.
    return structuredClone(stats.samples());
  };
  const merged = mergeStats([worker(1, 7), worker(), worker(7, 9, 1e9)]);
  assert.equal(merged.length, 1);
  const all = worker(1, 7, 7, 9, 1e9);
  assert.deepEqual(merged, all);
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

test("formatPrometheus() escapes the help text and writes infinity as +Inf", () => {
  const stats = new Stats();
  stats.gauge("g", "one\\two\nthree").set(Infinity);
  assert.equal(
    formatPrometheus(stats.samples()),
    "# HELP postern_g one\\\\two\\nthree\n# TYPE postern_g gauge\npostern_g +Inf\n",
  );
});

test("formatPrometheus() of nothing is empty", () => assert.equal(formatPrometheus([]), ""));

test("formatPrometheus() writes a histogram with its observed counts and sum, in seconds", () => {
  const stats = new Stats();
  const label = 'a "b"\\\nc';
  const histogram = stats.histogram("d_ms", "How long", { listener: label });
  for (const ms of [0.2, 3, 3, 40.125, 1e12]) histogram.observe(ms);
  stats.histogram("d_ms", "How long", { listener: "idle" });
  const text = formatPrometheus(stats.samples());
  assert.match(text, /^# HELP postern_d_seconds How long\n# TYPE postern_d_seconds histogram\n/);
  const series = parse(text);
  const of = (name: string, whose: string) =>
    series.filter((line) => line.name === name && line.labels["listener"] === whose);
  const buckets = of("postern_d_seconds_bucket", label);
  assert.deepEqual(
    buckets.map(({ labels }) => labels["le"]),
    [...BUCKETS_MS.map((ms) => String(ms / 1_000)), "+Inf"],
  );
  const counts = buckets.map(({ value }) => value);
  assert.deepEqual(counts, counts.toSorted((a, b) => a - b));
  const upTo = (le: string) => buckets.find(({ labels }) => labels["le"] === le)?.value;
  assert.deepEqual(["0.0005", "0.001", "0.005", "0.05", "3600", "+Inf"].map(upTo), [
    1,
    1,
    3,
    4,
    4,
    5,
  ]);
  assert.equal(of("postern_d_seconds_count", label)[0]?.value, 5);
  assert.equal(of("postern_d_seconds_sum", label)[0]?.value, (46.325 + 2 ** 32) / 1_000);
  assert.equal(of("postern_d_seconds_bucket", "idle").length, BUCKETS_MS.length + 1);
  assert.equal(of("postern_d_seconds_sum", "idle")[0]?.value, 0);
});

/** By the grammar of the text format, so that nothing else passes. */
function parse(text: string) {
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).map((line) => {
    const found = /^([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? (\S+)$/i.exec(line);
    assert.ok(found, line);
    const [, name = "", inside = "", value] = found;
    const labels: Record<string, string> = {};
    const rest = inside.replace(/([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/g, (_, key, label) => {
      labels[key] = label.replace(/\\(.)/g, (_: string, c: string) => c === "n" ? "\n" : c);
      return "";
    });
    assert.equal(rest, "");
    return { name, labels, value: Number(value === "+Inf" ? Infinity : value) };
  });
}
