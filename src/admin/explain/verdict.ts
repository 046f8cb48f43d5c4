/** An explained request as it may be shown: the answers, and the verdict over them. @module */

import type { ErrorCode } from "../../base/mod.ts";
import type { Explanation, LocalReply, SplitView, TargetView } from "../../proxy/mod.ts";
import { instancesInUse, keepsFailing } from "../upstream_troubles.ts";
import { proxyFlag, shellWord } from "./command_words.ts";
import { parseServiceId } from "../../identity/mod.ts";
import type { TriedPermission } from "../../policy/mod.ts";

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

const MOST = 5;

/** A command for each split that goes on to one service of the mesh. */
export function nextCommands(splits: readonly ExplainedSplit[], ownUri: string): readonly string[] {
  const commands = splits.flatMap((split) => {
    const { verdict } = endingOf(split);
    if (verdict !== "allow" && verdict !== "failing") return [];
    const [instance] = instancesOf(split.targets);
    const target = split.targets.find(({ endpoints }) => endpoints.some((one) => one === instance));
    const proxy = proxyFlag(instance?.id ?? "");
    if (!target?.callee || proxy === undefined) return [];
    const source = shellWord(sourceFor(target, ownUri));
    const { method, path } = split.sent ?? {};
    const request = path === undefined ? "" : ` ${method} ${shellWord(path)}`;
    return [`postern explain ${proxy} -inbound -source ${source}${request}`];
  });
  return [...new Set(commands)].slice(0, MOST);
}

/** A name means a service of the callee's own datacenter. */
function sourceFor({ spiffeUris: [calleeUri = ""] }: ExplainedTarget, ownUri: string): string {
  const own = parseServiceId(ownUri);
  const callee = parseServiceId(calleeUri);
  const isNear = own.kind === "service" && callee.kind === "service" &&
    own.id.datacenter === callee.id.datacenter;
  return isNear ? own.id.service : ownUri;
}

/**
 * `allow`: it goes on to the service. `failing`: it leaves this proxy, and every instance keeps failing.
 * `answer`: this proxy answers it as configured: a redirect, a plugin's response.
 * `deny`: this proxy or the callee's refuses it: intention, certificate, token, malformed request.
 * `fail`: it cannot be served: no instance, a limit, an application that is down. `depends`: some
 * splits go on and others do not.
 */
type Verdict = "allow" | "failing" | "answer" | "deny" | "fail" | "depends";

/** Verdict of a callee's intentions over a request from this proxy. */
export interface CalleeVerdict {
  readonly service: string;
  /** `unknown`: they cannot be read, or the judgement needs what only the callee has. */
  readonly verdict: "allow" | "deny" | "unknown";
  /** With `deny` alone: the status that its proxy answers; 0: it closes the connection. */
  readonly status?: number;
  /** The path as its proxy reads, judges and forwards it; `null`: bytes are carried, or it is refused. */
  readonly path: string | null;
  /** The intention that decides; with `unknown` the cause. */
  readonly reason: string;
  readonly permissions: readonly TriedPermission[];
}

/** The proxy that explains. */
export interface ExplainingProxy {
  /** Its id, or its configuration file. */
  readonly id: string;
  readonly service: string;
}

export interface ExplanationView extends Omit<Explanation, "splits" | "protocol"> {
  readonly proxy: ExplainingProxy;
  readonly verdict: Verdict;
  /** The status of the response; 0: the connection is closed; `null`: it goes on, or is not known. */
  readonly status: number | null;
  /** `null`: the upstream is refused, and nothing listens for it. */
  readonly protocol: Explanation["protocol"] | null;
  /** Data paths that answered. */
  readonly workers: number;
  /** Instances come from Consul and pass its checks; false: they are written in a file. */
  readonly hasConsul: boolean;
  /** A remark about the source: `no service "shpo" is in the catalog of dc1`; `""`: none. */
  readonly sourceNote: string;
  /** Configuration of the upstream, or of the service, that is not followed, in sentences. */
  readonly unfollowed: readonly string[];
  /** Refusals of the last minute by the proxy of the upstream, in sentences. */
  readonly refusing: readonly string[];
  readonly splits: readonly ExplainedSplit[];
  /** Commands that explain the same request on the hosts of the instances that get it. */
  readonly next: readonly string[];
}

export interface ExplainedSplit extends Omit<SplitView, "targets" | "head"> {
  /** In force for its requests; 0: none. */
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly targets: readonly ExplainedTarget[];
}

export interface ExplainedTarget extends Omit<TargetView, "endpoints"> {
  readonly endpoints: readonly ExplainedEndpoint[];
  /** `null`: nothing is sent there. */
  readonly callee: CalleeVerdict | null;
}

/** Data paths differ in what they have seen of an endpoint: failures of any of them are shown. */
export type ExplainedEndpoint = TargetView["endpoints"][number] & {
  /** Data paths that have ejected it, after failures of their own. */
  readonly ejectedBy: number;
};
