/**
 * The verdict over an explained request: one word for scripts, the status where it is known, and the
 * exit code that `postern explain` ends with.
 *
 * @module
 */

import type { ErrorCode } from "../../base/mod.ts";
import type { LocalReply } from "../../proxy/mod.ts";
import { instancesInUse, keepsFailing } from "../failing.ts";
import type {
  ExplainedEndpoint,
  ExplainedSplit,
  ExplanationView,
  Verdict,
} from "./explanation_view.ts";

interface VerdictEnding {
  readonly verdict: Exclude<Verdict, "depends">;
  /** The status of the response; 0: the connection is closed; `null`: it goes on, or is not known. */
  readonly status: number | null;
}

/** Carries {@link exitCodeOf} beside the text format. */
export const EXIT_CODE_HEADER = "postern-exit-code";

const DENIALS: ReadonlySet<string> = new Set<ErrorCode>([
  "intention_denied",
  "source_denied",
  "handshake_failed",
  "identity_invalid",
  "chain_untrusted",
  "request_invalid",
  "request_too_large",
  "plugin_denied",
  "rate_limited",
  "unauthenticated",
]);

/** The outcome of requests on this split. */
export function endingOf(
  { answer, targets }: Pick<ExplainedSplit, "answer" | "targets">,
): VerdictEnding {
  if (answer) return endingBy(answer);
  const reachable = targets.filter(({ endpoints }) => endpoints.some(isReachable));
  const [first] = reachable;
  if (first && reachable.every(({ callee }) => callee?.verdict === "deny")) {
    return { verdict: "deny", status: first.callee?.status ?? null };
  }
  const chosen = instancesOf(targets);
  const isFailing = chosen.length > 0 && chosen.every(isFailingStill);
  return { verdict: isFailing ? "failing" : "allow", status: null };
}

/** The instances that the request is sent to. */
export function instancesOf(targets: ExplainedSplit["targets"]): readonly ExplainedEndpoint[] {
  return instancesInUse(targets.map(({ endpoints }) => endpoints.filter(isReachable)));
}

/** An instance that refused connections earlier and takes one now was down for a while. */
function isFailingStill(endpoint: ExplainedEndpoint): boolean {
  const { lastFailure, unreachable } = endpoint;
  const wasDown = lastFailure.startsWith("endpoint_refused") && unreachable === "";
  return keepsFailing(endpoint) && !wasDown;
}

/** `null`: not tried, taken for reachable. */
function isReachable({ unreachable }: ExplainedEndpoint): boolean {
  return unreachable === null || unreachable === "";
}

function endingBy({ code, status }: LocalReply): VerdictEnding {
  if (code === "") return { verdict: "answer", status };
  return { verdict: DENIALS.has(code) ? "deny" : "fail", status };
}

/** `answer`: ends every request, on all splits. */
export function verdictOf(
  answer: LocalReply | null,
  splits: readonly ExplainedSplit[],
): Pick<ExplanationView, "verdict" | "status"> {
  if (answer) return endingBy(answer);
  const endings = splits.map(endingOf);
  const [first] = endings;
  if (!first) return { verdict: "allow", status: null };
  const status = endings.every((ending) => ending.status === first.status) ? first.status : null;
  const verdicts = new Set(endings.map(({ verdict }) => verdict));
  if (verdicts.size === 1) return { verdict: first.verdict, status };
  return { verdict: verdicts.has("allow") ? "depends" : "fail", status };
}

/** 0: the request goes on, or is answered without an error; 1: at least a part of such requests fails. */
export function exitCodeOf(
  { verdict, status }: Pick<ExplanationView, "verdict" | "status">,
): 0 | 1 {
  if (verdict === "answer") return status !== null && status < 400 ? 0 : 1;
  return verdict === "allow" ? 0 : 1;
}
