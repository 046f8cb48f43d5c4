/**
 * An explained request as it may be shown: the answer of all data paths together, and of Consul.
 *
 * @module
 */

import type { TriedPermission } from "../../policy/mod.ts";
import type { Explanation, SplitView, TargetView } from "../../proxy/mod.ts";

/**
 * `allow`: it goes on to the service. `failing`: it leaves this proxy, and every instance keeps failing.
 * `answer`: this proxy answers it as configured: a redirect, a plugin's response.
 * `deny`: this proxy or the callee's refuses it: intention, certificate, token, malformed request.
 * `fail`: it cannot be served: no instance, a limit, an application that is down. `depends`: some
 * splits go on and others do not.
 */
export type Verdict = "allow" | "failing" | "answer" | "deny" | "fail" | "depends";

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

/** The answer of all data paths together. */
export interface ExplanationView extends Omit<Explanation, "splits" | "protocol"> {
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
  readonly splits: readonly ExplainedSplit[];
  /** Commands that explain the same request on the hosts of the instances that get it. */
  readonly next: readonly string[];
}

export interface ExplainedSplit extends Omit<SplitView, "targets" | "head"> {
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
