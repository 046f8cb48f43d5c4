/**
 * An upstream's listener: the local app connects here to reach another service, plainly or, at an edge of
 * the mesh, with TLS. Who is let in may go on, so a connection goes through `downstream.ts`, `attempt.ts`
 * and `l4.ts`.
 *
 * @module
 */

import { hashText } from "../balance/mod.ts";
import type { Dial } from "../net/mod.ts";
import type { Limiter } from "./admission.ts";
import { Attempt, type Connect, type Dialler } from "./attempt.ts";
import type { ListenerStats } from "./connection.ts";
import type { Context } from "./context.ts";
import type { Downstream, Front, Service } from "./downstream.ts";
import { EndpointDial, type ProvenEndpoint } from "./endpoint_dial.ts";
import type { ConnectionLimits } from "./live.ts";
import { type Destination, L4 } from "./l4.ts";
import type { Failure } from "./refusal_sums.ts";
import type { Upstream } from "./upstream.ts";

export class Outbound implements Front, Destination {
  readonly direction = "outbound";
  readonly authorizer = "nobody";
  readonly context: Context;
  readonly upstream: Upstream;

  constructor(context: Context, upstream: Upstream) {
    this.context = context;
    this.upstream = upstream;
  }

  get name(): string {
    return this.upstream.part.id;
  }

  get destination(): string {
    return this.upstream.part.name;
  }

  get stats(): ListenerStats {
    return this.upstream.stats;
  }

  get places(): Limiter {
    return this.upstream.connections;
  }

  get limits(): ConnectionLimits {
    return this.upstream.part;
  }

  get tls(): Front["tls"] {
    return this.upstream.part.listener;
  }

  get http(): Front["http"] {
    return this.upstream.part.http;
  }

  get fault(): string {
    const { context: { facts: { trusts } }, upstream: { part } } = this;
    return (part.listener && trusts.fault(part.listener.credentials)) ||
      trusts.fault(part.credentials);
  }

  whyFull(): Failure {
    const { limit, full } = this.context.processLimit;
    if (full) return { code: "overloaded", reason: `the process holds ${limit} connections` };
    return { code: "limit_reached", reason: `limits.max_connections is ${this.places.limit}` };
  }

  serve(downstream: Downstream): Service {
    return new L4(downstream, this);
  }

  dial(dialler: Dialler<ProvenEndpoint>, remote: string): Dial {
    const { context, upstream } = this;
    const hash = upstream.needsHash ? hashText(hostOf(remote)) : undefined;
    const connect: Connect<ProvenEndpoint> = (lease, trust, endpointDialler) =>
      new EndpointDial(upstream, lease, endpointDialler, { context, trust, protocols: [] });
    const attempt = new Attempt(upstream, dialler, { context, hash, connect });
    attempt.start();
    return attempt;
  }
}

/** The address without its port: connections of one client stay together. */
function hostOf(remote: string): string {
  return remote.slice(0, Math.max(remote.lastIndexOf(":"), 0));
}
