/**
 * The results of a run of tests: counts from JUnit reports, the lines that an output adds to them, and
 * how a failure is shown. Pure.
 *
 * @module
 */

export interface Failure {
  readonly name: string;
  /** The text of the report; empty for a skipped test. */
  readonly text: string;
}

export interface Counts {
  /** Names of the tests that passed. */
  readonly passed: readonly string[];
  /** The tests that failed or were skipped. */
  readonly failures: readonly Failure[];
  /** The tests that the ordinary run left out, in the words of `test/kit/clock/long.ts`. */
  readonly left: readonly string[];
}

/** Characters of a failure: the error's words come first, what its process printed comes last. */
const SHOWN_TEXT = 4_000;

/** Text of a failed test case. */
const FAILED = /<(?:failure|error)\b(?:[^>"]|"[^"]*")*?(?:\/>|>([\s\S]*?)<\/(?:failure|error)>)/;

/** Attributes and body of one test case, self-closing or not. */
const TEST_CASE = /<testcase\b((?:[^>"]|"[^"]*")*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g;

/**
 * Tests of one JUnit report, as Deno and Bun write it. Deno lists a parent test beside its steps; each
 * counts as one, as it does in Deno's own summary.
 */
export function readJunit(xml: string): Pick<Counts, "passed" | "failures"> {
  const passed: string[] = [];
  const failures: Failure[] = [];
  for (const [, attributes = "", body = ""] of xml.matchAll(TEST_CASE)) {
    const name = unescapeXml(attributes.match(/\bname="([^"]*)"/)?.[1] ?? "?");
    const failed = FAILED.exec(body);
    if (/<skipped\b/.test(body)) failures.push({ name: `${name} (skipped)`, text: "" });
    else if (failed) failures.push({ name, text: unescapeXml(failed[1] ?? "").trim() });
    else passed.push(name);
  }
  return { passed, failures };
}

/** The test that had begun and not ended when Deno's output stopped. */
export function unfinished(output: string): string | undefined {
  const lines = output.split("\n");
  const begun = lines.findLastIndex((line) => / \.\.\.\s*$/.test(line));
  const name = lines[begun]?.replace(/ \.\.\.\s*$/, "");
  const over = lines.slice(begun + 1).some((line) => line.startsWith(`${name} ... `));
  return over ? undefined : name;
}

/** The tests that `test/kit/clock/long.ts` left for the long run, by its lines in `output`. */
export function leftForLong(output: string): string[] {
  return [...output.matchAll(/^left for test:long: (.*)$/gm)].map(([, what = ""]) => what);
}

/**
 * Ways for a test to leave without having tested, by line. Deno reports a test that skips itself while
 * it runs as passed, so such words may not stand in a test at all: what can run on one engine only is
 * registered on that engine only.
 */
export function skips(source: string): string[] {
  return source.split("\n").flatMap((line, index) =>
    LEAVES.test(line.replace(STRINGS, '""')) ? [`line ${index + 1}: ${line.trim()}`] : []
  );
}

const STRINGS = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`/g;
const MACHINE = /process\.(?:platform|arch|versions|getuid)|globalThis|OWN_ENGINE/.source;
const LEAVES = new RegExp(
  `(?<!\\.)\\.(?:skip|todo|only)\\(|\\b(?:skip|todo): (?:true|""|[a-z]+[ ,.(])|\\bif \\(.*(?:${MACHINE}).*\\) return\\b`,
);

/**
 * A failure as it is shown once more below everything else: a reader who sees only the end of a long
 * output must not lose the reason. Each line begins with `  |`.
 */
export function showFailure({ name, text }: Failure): string {
  const shown = text.length <= SHOWN_TEXT
    ? text
    : `${text.slice(0, SHOWN_TEXT / 4)}\n...\n${text.slice(-SHOWN_TEXT * 3 / 4)}`;
  const lines = shown === "" ? [] : shown.split("\n");
  return [`  failed: ${name}`, ...lines.map((line) => `  | ${line}`)].join("\n");
}

function unescapeXml(text: string): string {
  const named: Readonly<Record<string, string>> = {
    "&lt;": "<",
    "&gt;": ">",
    "&quot;": '"',
    "&apos;": "'",
    "&amp;": "&",
    "&#10;": "\n",
  };
  return text.replace(/&(?:lt|gt|quot|apos|amp|#10);/g, (entity) => named[entity] ?? entity);
}
