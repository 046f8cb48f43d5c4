/**
 * The certificates that mesh peers are checked against, as a server's stream tells them: one stream for
 * everybody who wants to know.
 *
 * @module
 */

import { type Clock, type Log, ProxyError, type Stats } from "../../../base/mod.ts";
import type { WatchHandle, WatchSink } from "../../agent.ts";
import type { ClusterPin } from "../../cluster_pin.ts";
import type { Roots } from "../../types.ts";
import { Delivery, toProxyError } from "../../watch/delivery.ts";
import { type ServerRoots, WATCH_ROOTS } from "../methods.ts";
import type { ConsulServers } from "../types.ts";

export interface RootsDeps {
  readonly servers: Pick<ConsulServers, "follow">;
  readonly cluster?: Pick<ClusterPin, "judge">;
  readonly clock: Clock;
  readonly log: Log;
  readonly stats: Stats;
}

/** What `/v1/connect/ca/roots` would say of the same; fails with `agent_reply_invalid`. */
export function readServerRoots({ activeRootId, trustDomain, roots }: ServerRoots): Roots {
  if (!trustDomain || roots.length === 0) {
    throw new ProxyError(
      "agent_reply_invalid",
      "Cannot use the CA roots: there is none yet; is Connect enabled on the servers?",
    );
  }
  if (roots.some(({ rootCert }) => rootCert === "")) {
    throw new ProxyError("agent_reply_invalid", "Cannot use the CA roots: one has no certificate");
  }
  return {
    activeId: activeRootId,
    trustDomain: trustDomain.toLowerCase(),
    roots: roots.map(({ id, name, rootCert, active }) => ({
      ...{ id, name, active, pem: rootCert },
      // What servers call external is told by the HTTP API alone.
      externalTrustDomain: "",
    })),
  };
}

export class RootsFeed {
  readonly #deps: RootsDeps;
  readonly #sinks = new Set<WatchSink<Roots>>();
  #stream: { stop(): void } | undefined;
  #delivery: Delivery<Roots>;

  constructor(deps: RootsDeps) {
    this.#deps = deps;
    this.#delivery = this.#newDelivery();
  }

  get current(): Roots | undefined {
    return this.#delivery.last?.value;
  }

  /** The stream is there for as long as somebody watches. */
  watch(sink: WatchSink<Roots>): WatchHandle {
    const told = { ...sink };
    this.#sinks.add(told);
    this.#stream ??= this.#deps.servers.follow(WATCH_ROOTS, null, {
      onMessage: (message) => {
        try {
          const roots = readServerRoots(message);
          this.#deps.cluster?.judge(roots.trustDomain, "the Consul server");
          this.#delivery.succeeded(roots);
        } catch (error) {
          this.#delivery.failed(toProxyError(error));
        }
      },
      onError: (error) => this.#delivery.failed(error),
    });
    const { current } = this;
    if (current) sink.onValue(current);
    const state = () => this.#delivery.stateWith("long");
    return {
      get state() {
        return state();
      },
      stop: () => {
        this.#sinks.delete(told);
        if (this.#sinks.size > 0) return;
        this.#delivery = this.#newDelivery();
        this.#stream?.stop();
        this.#stream = undefined;
      },
    };
  }

  #newDelivery(): Delivery<Roots> {
    return new Delivery({ name: "roots", resource: "roots" }, {
      sink: {
        onValue: (roots) => this.#sinks.forEach((sink) => sink.onValue(roots)),
        onError: (error) => this.#sinks.forEach((sink) => sink.onError(error)),
      },
      deps: this.#deps,
    });
  }
}
