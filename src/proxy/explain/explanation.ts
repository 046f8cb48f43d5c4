/**
 * The question what would become of a request, and the answer: plain data, between the threads and for
 * the admin server.
 *
 * @module
 */

import type { EndpointSummary } from "../../balance/mod.ts";
import type { RequestHead } from "../../http/mod.ts";
import type { TriedPermission } from "../../policy/mod.ts";
import type { LayerView } from "../../plugin/mod.ts";
import type { Protocol, Resolver } from "../../snapshot/mod.ts";

/** Their configuration is times, numbers and conditions: nothing that could be a key. */
export const PLAIN_PLUGINS: ReadonlySet<string> = new Set(["retry", "timeout"]);

/** A request that nobody has to send; what is left out is as simple as it can be. */
export interface ExplainQuery {
  /** `name`: of a listener; `upstream`: its name, id or address, or a host at an edge; else the public one. */
  readonly to: { readonly kind: "inbound" } | {
    readonly kind: "listener" | "upstream";
    readonly name: string;
  };
  /** Name of a service, or the URI of a certificate; `""`: a caller without a certificate. */
  readonly source: string;
  readonly method: string;
  /** Host, and port where there is one; `""`: the request has none; `undefined`: the callee's name. */
  readonly host: string | undefined;
  /** As a client would write it. */
  readonly path: string;
  /** `name: value` each. */
  readonly headers: readonly string[];
  /** Endpoints and the application are connected to, to see whether they are there; nothing is sent. */
  readonly connects: boolean;
}

export type ExplainResult =
  | { readonly kind: "answer"; readonly explanation: Explanation }
  /** It cannot be asked so, or nothing has that name. */
  | { readonly kind: "invalid" | "unknown"; readonly reason: string };

/** What this proxy itself answers, in place of an endpoint or the application. */
export interface LocalReply {
  /** 0: it closes the connection and answers nothing. */
  readonly status: number;
  /** A caller that speaks gRPC is told this status in place of the other; `null`: it does not. */
  readonly grpcStatus: number | null;
  readonly code: string;
  readonly reason: string;
}

/** A request as it is sent on. */
export interface SentRequest {
  readonly method: string;
  readonly host: string;
  readonly path: string;
}

export interface Explanation {
  readonly listener: string;
  readonly direction: "inbound" | "outbound";
  readonly protocol: Protocol;
  /** `null`: callers of this listener do not prove who they are. */
  readonly source: string | null;
  /** As it is judged and matched; `null`: the listener carries bytes. */
  readonly request: SentRequest | null;
  /** Id of the upstream that it goes to; `null`: to the application, or nowhere. */
  readonly upstream: string | null;
  /** `null`: it goes on; where its {@link splits} differ in that each has its own. */
  readonly answer: LocalReply | null;
  /** The intention that decides, or the default; `""`: none does. */
  readonly rule: string;
  /** Those that were looked at, the one that decides last. */
  readonly permissions: readonly TriedPermission[];
  /** Why a token that an intention demands was not verified: `okta: Jwt is expired`. */
  readonly tokens: readonly string[];
  /** `null`: no route takes it, or it does not get that far. */
  readonly route: RouteView | null;
  /** Outermost first. */
  readonly plugins: readonly LayerView[];
  /** One of them by chance; none for what goes to the local application, or nowhere. */
  readonly splits: readonly SplitView[];
  /** The local application; `null`: it does not go there. */
  readonly local: LocalView | null;
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

export interface LocalView {
  readonly address: string;
  /** `null`: bytes are carried. */
  readonly sent: SentRequest | null;
}

export interface SplitView {
  /** From above 0 to 1. */
  readonly chance: number;
  /** `null`: it is sent to one of {@link targets}. */
  readonly answer: LocalReply | null;
  /** `null`: bytes are carried, or it is not sent. */
  readonly sent: SentRequest | null;
  /** Its fields as they are sent, for judging and never for showing; absent: it is not sent. */
  readonly head?: RequestHead;
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
  /** Why it has no instance; `""`: it has some. */
  readonly lack: string;
  /** One of these must answer. */
  readonly spiffeUris: readonly string[];
  readonly endpoints: readonly EndpointReach[];
}

export interface EndpointReach extends EndpointSummary {
  /** Why no connection came up just now; `""`: one did; `null`: none was tried. */
  readonly unreachable: string | null;
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
