/** The HTTP API of Consul's servers, and when a server that answers badly is left. @module */

import { messageOf } from "../../base/mod.ts";
import type { DialEngine } from "../../http/mod.ts";
import type { CommonDeps } from "../model/consul.ts";
import { Client } from "../http/client.ts";
import { type ClusterPin, ClusterProof } from "../http/cluster.ts";
import type { CallToken } from "../http/token.ts";
import { Transport } from "../http/transport.ts";
import { judgeCluster } from "../replies/certificates.ts";
import type { ConsulReach } from "../watch/consul_reach.ts";
import { ServersCarrier, type ServersCarrierOptions } from "./servers_carrier.ts";
import { createServersTls } from "./servers_tls.ts";
import type { ServersOptions } from "./types.ts";

interface ServersClientDeps extends CommonDeps {
  readonly servers: ServersCarrierOptions["servers"];
  readonly token: CallToken;
  readonly engine: DialEngine;
  /** Learns of moves and of a new token, so that every watch starts again. */
  readonly reach: ConsulReach;
  readonly cluster: ClusterPin;
  /** Called when a server refuses for load. */
  readonly onRefused?: () => void;
}

/**
 * Connects to nothing yet; fails with `config_invalid` where files for TLS cannot be used. Its `carrier`
 * reads certificates again, and closes.
 */
export function createServersClient(options: ServersOptions, deps: ServersClientDeps): Client {
  const { servers, token, engine, clock, stats, reach, cluster, onRefused } = deps;
  const tls = createServersTls(options, deps);
  const carrier = new ServersCarrier({
    servers,
    clock,
    createTransport({ host }) {
      const address = { kind: "tcp", host, port: options.httpPort } as const;
      return new Transport({ peer: "server", address, tls, engine, clock });
    },
  });
  const unfit = new UnfitServer(deps);
  servers.onMove(() => reach.moved());
  token.onChange(() => {
    reach.moved();
    carrier.endWaits("The token was replaced");
  });
  const judged = {
    judge(trustDomain: string, peer: string) {
      try {
        cluster.judge(trustDomain, peer);
      } catch (error) {
        // There may be several servers behind one address: another connection may lead to ours.
        carrier.leave(messageOf(error));
        throw error;
      }
    },
  };
  const client: Client = new Client({
    pathPrefix: "",
    basicAuth: "",
    datacenter: options.datacenter,
    stale: false,
    namespace: options.namespace,
    partition: options.partition,
    names: options.names,
  }, {
    carrier,
    token,
    stats,
    proof: new ClusterProof({ pin: cluster, reach, ask: () => judgeCluster(client, judged) }),
    onFailure(code) {
      if (code === "agent_overloaded") onRefused?.();
      // An unreadable reply, or too long a one.
      else if (code !== "agent_reply_invalid") return;
      if (unfit.failed()) carrier.leave(`its answers are no good (${code})`);
    },
    onSilence(silenceMs) {
      if (unfit.answered(silenceMs)) carrier.leave("it has no leader");
    },
  });
  return client;
}

/** Failures belong to one series while no two are further apart. */
const GAP_MS = 10_000;
const HOLD_MS = 2_000;
const HOLD_SPREAD_MS = 8_000;
/** Maximum age of the state that a server without its leader answers from; elections are over sooner. */
const SILENCE_LIMIT_MS = 15_000;
const STAY_MS = 60_000;

/**
 * When a server that answers is left all the same: because it refuses for load, sends unreadable replies,
 * or has no leader while others may have one. A fleet that left at the first sign, and at once, would carry
 * the trouble from server to server. So failures are a reason only after some seconds of them, more or
 * fewer at random, and after a move the proxy stays for a minute or two.
 */
export class UnfitServer {
  readonly #deps: Pick<CommonDeps, "clock" | "random">;
  /** The last failure of a series, and when the series has lasted long enough. */
  #series: { lastMs: number; readonly untilMs: number } | undefined;
  #stayUntilMs = -Infinity;

  constructor(deps: Pick<CommonDeps, "clock" | "random">) {
    this.#deps = deps;
  }

  /** Whether a server that refused for load, or sent an unreadable reply, is left now. */
  failed(): boolean {
    const nowMs = this.#deps.clock.monotonic();
    const series = this.#series;
    if (!series || nowMs - series.lastMs > GAP_MS) {
      const untilMs = nowMs + HOLD_MS + HOLD_SPREAD_MS * this.#deps.random();
      this.#series = { lastMs: nowMs, untilMs };
      return false;
    }
    series.lastMs = nowMs;
    return nowMs >= series.untilMs && this.#mayLeave(nowMs);
  }

  /** Whether a server is left now that has not heard of its leader for this long. */
  answered(silenceMs: number): boolean {
    return silenceMs > SILENCE_LIMIT_MS && this.#mayLeave(this.#deps.clock.monotonic());
  }

  #mayLeave(nowMs: number): boolean {
    if (nowMs < this.#stayUntilMs) return false;
    this.#stayUntilMs = nowMs + STAY_MS * (1 + this.#deps.random());
    return true;
  }
}
