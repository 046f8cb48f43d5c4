import assert from "node:assert/strict";
import { test } from "node:test";
import { Stats } from "./stats.ts";
import { BUCKETS_MS } from "./stats_histogram.ts";
import { formatPrometheus } from "./stats_text.ts";

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

test("formatPrometheus() writes a histogram with its observed counts and sum", () => {
  const stats = new Stats();
  const label = 'a "b"\\\nc';
  const histogram = stats.histogram("d_ms", "How long", { listener: label });
  for (const ms of [0.2, 3, 3, 40.125, 1e12]) histogram.observe(ms);
  stats.histogram("d_ms", "How long", { listener: "idle" });
  const text = formatPrometheus(stats.samples());
  assert.match(text, /^# HELP postern_d_ms How long\n# TYPE postern_d_ms histogram\n/);
  const series = parse(text);
  const of = (name: string, whose: string) =>
    series.filter((line) => line.name === name && line.labels["listener"] === whose);
  const buckets = of("postern_d_ms_bucket", label);
  assert.deepEqual(
    buckets.map(({ labels }) => labels["le"]),
    [...BUCKETS_MS.map(String), "+Inf"],
  );
  const counts = buckets.map(({ value }) => value);
  assert.deepEqual(counts, counts.toSorted((a, b) => a - b));
  const upTo = (le: string) => buckets.find(({ labels }) => labels["le"] === le)?.value;
  assert.deepEqual(["0.5", "1", "5", "50", "3600000", "+Inf"].map(upTo), [1, 1, 3, 4, 4, 5]);
  assert.equal(of("postern_d_ms_count", label)[0]?.value, 5);
  assert.equal(of("postern_d_ms_sum", label)[0]?.value, 46.325 + 2 ** 32);
  assert.equal(of("postern_d_ms_bucket", "idle").length, BUCKETS_MS.length + 1);
  assert.equal(of("postern_d_ms_sum", "idle")[0]?.value, 0);
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
