/** Times of a log line, in UTC: ISO 8601, or `strftime` with Envoy's fractions (`%3f`). @module */

/** Formats a wall clock time in ms. */
export type TimeText = (ms: number) => string;

const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");
const MONTHS = ("January February March April May June July August September October November " +
  "December").split(" ");
const DAY_MS = 86_400_000;
/** A token is `%`, a digit before `f`, and a letter. */
const TOKEN = /%(?:([1-9])f|([a-zA-Z%]))/g;

const FIELDS: Readonly<Record<string, (date: Date) => string>> = {
  Y: (date) => String(date.getUTCFullYear()).padStart(4, "0"),
  y: (date) => two(date.getUTCFullYear() % 100),
  m: (date) => two(date.getUTCMonth() + 1),
  d: (date) => two(date.getUTCDate()),
  e: (date) => String(date.getUTCDate()).padStart(2, " "),
  H: (date) => two(date.getUTCHours()),
  I: (date) => two(date.getUTCHours() % 12 || 12),
  M: (date) => two(date.getUTCMinutes()),
  S: (date) => two(date.getUTCSeconds()),
  p: (date) => date.getUTCHours() < 12 ? "AM" : "PM",
  j: (date) => {
    const year = Date.UTC(date.getUTCFullYear(), 0, 1);
    return String(Math.floor((date.getTime() - year) / DAY_MS) + 1).padStart(3, "0");
  },
  a: (date) => (DAYS[date.getUTCDay()] ?? "").slice(0, 3),
  A: (date) => DAYS[date.getUTCDay()] ?? "",
  b: (date) => (MONTHS[date.getUTCMonth()] ?? "").slice(0, 3),
  B: (date) => MONTHS[date.getUTCMonth()] ?? "",
  z: () => "+0000",
  Z: () => "UTC",
  s: (date) => String(Math.floor(date.getTime() / 1_000)),
  F: (date) => date.toISOString().slice(0, 10),
  T: (date) => date.toISOString().slice(11, 19),
  R: (date) => date.toISOString().slice(11, 16),
  D: (date) =>
    `${two(date.getUTCMonth() + 1)}/${two(date.getUTCDate())}/${two(date.getUTCFullYear() % 100)}`,
  n: () => "\n",
  t: () => "\t",
  "%": () => "%",
};

function two(value: number): string {
  return value < 10 ? `0${value}` : String(value);
}

/** `2026-11-22T16:53:30.123Z`. The text up to the second is cached. */
export function isoTime(): TimeText {
  let second = NaN;
  let beginning = "";
  return (ms) => {
    const whole = Math.floor(ms / 1_000);
    if (whole !== second) {
      second = whole;
      beginning = new Date(whole * 1_000).toISOString().slice(0, -4);
    }
    return `${beginning}${String(1_000 + Math.floor(ms) - whole * 1_000).slice(1)}Z`;
  };
}

/** Compiles a format; `unknown`: the part of it that is not supported. */
export function timeFormat(format: string): TimeText | { readonly unknown: string } {
  if (format === "") return isoTime();
  const parts: (string | ((date: Date) => string))[] = [];
  let at = 0;
  for (const { index, 0: token, 1: digits, 2: letter = "" } of format.matchAll(TOKEN)) {
    parts.push(format.slice(at, index));
    at = index + token.length;
    // Times have milliseconds; further digits are 0.
    const fraction = letter === "f" ? 9 : Number(digits);
    if (fraction > 0) parts.push((date) => fractionOf(date, fraction));
    else if (Object.hasOwn(FIELDS, letter)) parts.push(FIELDS[letter] ?? "");
    else return { unknown: token };
  }
  parts.push(format.slice(at));
  const wrong = parts.find((part) => typeof part === "string" && part.includes("%"));
  if (typeof wrong === "string") return { unknown: wrong.slice(wrong.indexOf("%")) };
  return (ms) => {
    const date = new Date(ms);
    let text = "";
    for (const part of parts) text += typeof part === "string" ? part : part(date);
    return text;
  };
}

function fractionOf(date: Date, digits: number): string {
  return String(1_000 + date.getUTCMilliseconds()).slice(1).padEnd(9, "0").slice(0, digits);
}
