/** Durations in the form of Go and Consul: `1m30s`, `250ms`, `1.5h`, `-1s`. @module */

const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  "µs": 1e-3,
  "μs": 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** Go counts nanoseconds in 63 bits and refuses more. */
const LONGEST_MS = 2 ** 63 / 1e6;

/** Milliseconds of a Go duration; `undefined`: it is none. Only `0` needs no unit. */
export function parseDurationMs(text: string): number | undefined {
  const whole = /^([+-]?)((?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/;
  if (/^[+-]?0$/.test(text)) return 0;
  if (text.length > 64 || !whole.test(text)) return undefined;
  let totalMs = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/g)) {
    totalMs += Number(amount) * (UNIT_MS[unit ?? ""] ?? NaN);
  }
  if (totalMs > LONGEST_MS) return undefined;
  return text.startsWith("-") ? 0 - totalMs : totalMs;
}

/** Whole milliseconds in Consul's form (`wait=` needs a unit). */
export function formatDurationMs(ms: number): string {
  return `${Math.round(ms)}ms`;
}

const SHOWN_UNITS = [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]] as const;

/** For people: `3h12m`, `2d`, `0s`; whole units, the largest and the next one. Not negative. */
export function formatSpanMs(ms: number): string {
  let left = Math.floor(ms / 1_000);
  const largest = SHOWN_UNITS.findIndex(([, seconds]) => left >= seconds);
  if (largest < 0) return "0s";
  let text = "";
  for (const [unit, seconds] of SHOWN_UNITS.slice(largest, largest + 2)) {
    const amount = Math.floor(left / seconds);
    if (amount > 0) text += `${amount}${unit}`;
    left -= amount * seconds;
  }
  return text;
}
