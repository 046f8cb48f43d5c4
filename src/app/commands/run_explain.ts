/** `postern explain`: has a running proxy explain what it would do with a request. @module */

import process from "node:process";
import { type AdminAddress, type AskAdmin, askAdmin, EXIT_CODE_HEADER } from "../../admin/mod.ts";
import { ERROR_CAUSES } from "../../base/error_causes.ts";
import {
  ERROR_CODES,
  type ErrorCode,
  escapeUnseen,
  formatAddress,
  messageOf,
  nearest,
  originOf,
  printable,
  ProxyError,
} from "../../base/mod.ts";
import {
  choiceOf,
  findProxy,
  findSidecars,
  type FoundSidecar,
  shortName,
  type WhichProxy,
} from "../process/find_admin.ts";

/** Longer than the proxy waits for its data workers and for Consul. */
const ASK_TIMEOUT_MS = 10_000;
/** Room for about ten thousand endpoints. */
const LIMIT_BYTES = 4 * 1_048_576;
/** There is no answer: no such listener, no proxy. As for wrong usage. */
const NO_ANSWER = 2;

export interface ExplainOptions {
  readonly proxy: WhichProxy;
  readonly method: string;
  /** Id, name or address, with the port where one was written; `undefined`: to the service itself. */
  readonly upstream: string | undefined;
  /** `""`: none was written. */
  readonly host: string;
  /** Path and query as written. */
  readonly path: string;
  /** `name: value` each. */
  readonly headers: readonly string[];
  /** `""`: a caller without a certificate. */
  readonly source: string;
  readonly json: boolean;
  /** Instances and the application are connected to. */
  readonly connects: boolean;
}

/** Writes the answer to standard output; the exit code. */
export async function runExplain(options: ExplainOptions): Promise<number> {
  try {
    const { text, note, exitCode } = await explained(options, askAdmin);
    if (note !== undefined) process.stderr.write(`postern: ${printable(note)}\n`);
    process.stdout.write(text);
    return exitCode;
  } catch (error) {
    const lines = `${messageOf(error)}${codeHint(options.upstream)}`.split("\n").map(printable);
    process.stderr.write(`postern: ${lines.join("\n")}\n`);
    return NO_ANSWER;
  }
}

/** For what looks like a code; codes have underscores, which names of services rarely have. */
export function codeHint(word: string | undefined): string {
  if (word === undefined || !/^[a-z]+(?:_[a-z]+)+$/i.test(word)) return "";
  const near = nearest(word, ERROR_CODES);
  const text = near === undefined
    ? "docs/codes.md lists them"
    : `did you mean "postern explain ${near}"?`;
  return `\n"${word}" is no code, either: ${text}`;
}

/** Writes cause and cure of an error code. */
export function explainCode(code: ErrorCode): number {
  const { cause, cure } = ERROR_CAUSES[code];
  process.stdout.write(`${code}, blamed on: ${originOf(code)}\nCause: ${cause}\nCure:  ${cure}\n`);
  return 0;
}

interface ExplainedText {
  readonly text: string;
  /** Why this proxy was taken, where none was chosen. */
  readonly note?: string;
  /** 1: the request is refused or would fail. */
  readonly exitCode: number;
}

/** Throws, for people, without an answer. */
export async function explained(options: ExplainOptions, ask: AskAdmin): Promise<ExplainedText> {
  if (options.proxy.kind === "only") {
    const found = await findSidecars({ kind: "all" }, ask);
    if (found.length > 1) return await explainedByOne(found, options, ask);
  }
  const found = await findProxy(options.proxy, { ask });
  if (found.kind !== "found") throw new ProxyError("internal", `Cannot ask the proxy ${found.why}`);
  return await explainedBy(found.admin, options, ask);
}

/** Several proxies run: the only one that has the upstream is meant. */
async function explainedByOne(
  all: readonly FoundSidecar[],
  options: ExplainOptions,
  ask: AskAdmin,
): Promise<ExplainedText> {
  const { upstream } = options;
  const answers = upstream === undefined ? [] : await Promise.all(all.map(async (found) => {
    const answer = await explainedBy(found.admin, options, ask).catch(() => undefined);
    return answer ? [{ found, answer }] : [];
  }));
  const [first, second] = answers.flat();
  if (!first || second) throw new ProxyError("internal", `Cannot tell the proxy ${choiceOf(all)}`);
  const note = `asked ${shortName(first.found)}, the only one of ${all.length} proxies here ` +
    `with an upstream ${upstream}`;
  return { ...first.answer, note };
}

async function explainedBy(
  admin: AdminAddress,
  options: ExplainOptions,
  ask: AskAdmin,
): Promise<ExplainedText> {
  const at = `the proxy at ${formatAddress({ ...admin, kind: "tcp" })}`;
  const question = { path: pathOf(options), timeoutMs: ASK_TIMEOUT_MS, limitBytes: LIMIT_BYTES };
  const { status, body, headers } = await ask(admin, question).catch((error) => {
    throw new ProxyError("internal", `Cannot ask ${at}: ${messageOf(error)}`);
  });
  // The server at that address may be no proxy.
  if (status === 200) {
    return { text: escapeUnseen(body), exitCode: Number(headers?.[EXIT_CODE_HEADER] ?? 0) };
  }
  throw new ProxyError("internal", printable(body.trim()) || `Cannot ask ${at}: status ${status}`);
}

function pathOf(options: ExplainOptions): string {
  const { method, upstream, host, path, headers, source, json, connects } = options;
  const query = new URLSearchParams({ method, ...(host !== "" && { host }), path });
  if (upstream === undefined) query.set("source", source);
  else query.set("upstream", upstream);
  for (const header of headers) query.append("header", header);
  if (!connects) query.set("connect", "no");
  if (!json) query.set("format", "text");
  return `/explain?${query}`;
}
