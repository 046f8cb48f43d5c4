/**
 * What is asked and answered about a request that nobody sends: plain data, between the threads and for
 * the admin server.
 *
 * @module
 */

import type { EndpointSummary } from "../balance/mod.ts";
import type { TriedPermission } from "../policy/mod.ts";
import type { LayerView } from "../plugin/mod.ts";
import type { Protocol, Resolver } from "../snapshot/mod.ts";

/** They do what they are told, which is times, numbers and conditions: nothing that could be a key. */
export const PLAIN_PLUGINS: ReadonlySet<string> = new Set(["retry", "timeout"]);

/** Who asks whom for what; what is not said is as simple as it can be. */
export interface Question {
  /** `name`: of a listener; `upstream`: its name, id or address, or a host at an edge; else the public one. */
  readonly to: { readonly kind: "inbound" } | {
    readonly kind: "listener" | "upstream";
    readonly name: string;
  };
  /** Name of a service, or the URI of a certificate; `""`: somebody who proved nothing. */
  readonly source: string;
  readonly method: string;
  /** Host, and port where there is one; `""`: none. */
  readonly host: string;
  /** As a client would write it. */
  readonly path: string;
  /** `name: value` each. */
  readonly headers: readonly string[];
}

export type Explained =
  | { readonly kind: "answer"; readonly explanation: Explanation }
  /** It cannot be asked so, or there is nobody of that name. */
  | { readonly kind: "invalid" | "unknown"; readonly reason: string };

export interface Explanation {
  readonly listener: string;
  readonly direction: "inbound" | "outbound";
  readonly protocol: Protocol;
  /** `null`: nobody is asked who they are. */
  readonly source: string | null;
  /** As it is judged, matched and sent on; `null`: the listener carries bytes. */
  readonly request:
    | { readonly method: string; readonly host: string; readonly path: string }
    | null;
  readonly verdict: "allow" | "deny";
  /** That the proxy itself would answer; 0: none, or it would close the connection. */
  readonly status: number;
  /** The rule that decides; `""`: nobody is asked. */
  readonly rule: string;
  /** Those that were looked at, the one that decides last. */
  readonly permissions: readonly TriedPermission[];
  /** `null`: it comes to none. `matches` in words. */
  readonly route: RouteView | null;
  /** Outermost first. */
  readonly plugins: readonly LayerView[];
  /** One of them by chance; none for what goes to the local application, or nowhere. */
  readonly splits: readonly SplitView[];
  /** Address of the local application; `null`: it does not go there. */
  readonly local: string | null;
  /** 0: none. */
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** `null`: to the local application. */
  readonly limits: LimitsView | null;
  /** What cannot be known before it is sent, in whole sentences. */
  readonly unknown: readonly string[];
}

export interface RouteView {
  readonly name: string;
  readonly service: string;
  readonly matches: string;
}

export interface SplitView {
  /** From above 0 to 1. */
  readonly chance: number;
  readonly balancing: Resolver["balancing"];
  /** Of the request, in words: what stays with an endpoint where balancing goes by that. */
  readonly hashedBy: readonly string[];
  /** What it asks of plugins, by their names, in place of what the route does; empty: nothing of its own. */
  readonly plugins: Readonly<Record<string, unknown>>;
  /** Why there is no target; `""`: there is. */
  readonly lack: string;
  /** In failover order. */
  readonly targets: readonly TargetView[];
}

export interface TargetView {
  readonly target: string;
  readonly connectTimeoutMs: number;
  /** Why there is nobody; `""`: there is. */
  readonly lack: string;
  readonly endpoints: readonly EndpointSummary[];
}

export interface LimitsView {
  readonly connections: Places;
  readonly pending: Places;
  /** `null`: the listener carries bytes. */
  readonly requests: Places | null;
}

interface Places {
  readonly taken: number;
  readonly limit: number;
}
