/** The roots of the mesh from a server's stream: one stream for all watches. @module */

import { ProxyError } from "../../../base/mod.ts";
import type { CommonDeps, WatchHandle, WatchSink } from "../../model/consul.ts";
import type { ClusterPin } from "../../http/cluster.ts";
import type { Roots } from "../../model/values.ts";
import { Delivery, toProxyError } from "../../watch/delivery.ts";
import { WATCH_ROOTS } from "../methods.ts";
import type { ConsulServers } from "../types.ts";

interface RootsDeps extends Omit<CommonDeps, "random"> {
  readonly servers: Pick<ConsulServers, "follow">;
  readonly cluster?: Pick<ClusterPin, "judge">;
}

/** Fails with `agent_reply_invalid` where peers cannot be checked against `roots`. */
export function checkRoots({ trustDomain, roots }: Roots): void {
  const fault = !trustDomain || roots.length === 0
    ? "there is none yet; is Connect enabled on the servers?"
    : roots.some(({ pem }) => pem === "")
    ? "one has no certificate"
    : undefined;
  if (fault === undefined) return;
  throw new ProxyError("agent_reply_invalid", `Cannot use the CA roots: ${fault}`);
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

  /** The stream is open while there is a watch. */
  watch(sink: WatchSink<Roots>): WatchHandle {
    // A sink may watch twice.
    const own = { ...sink };
    this.#sinks.add(own);
    this.#stream ??= this.#deps.servers.follow(WATCH_ROOTS, null, {
      onMessage: (roots) => {
        try {
          checkRoots(roots);
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
        this.#sinks.delete(own);
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
