/**
 * A rig for modules that ask Consul's servers about a node: a {@link ScriptedAgent} in a server's place;
 * calls by gRPC fail as the test sets.
 *
 * @module
 */

import { ProxyError, seededRandom, silentLog, Stats } from "../../../src/base/mod.ts";
import { createAgentCarrier } from "../../../src/consul/http/transport.ts";
import { Client } from "../../../src/consul/http/client.ts";
import { ConsulReach } from "../../../src/consul/watch/consul_reach.ts";
import { TokenSource } from "../../../src/consul/http/token.ts";
import type { AgentOptions } from "../../../src/consul/mod.ts";
import type { NodeCatalog } from "../../../src/consul/servers/catalog/node_catalog.ts";
import type { Method } from "../../../src/consul/servers/types.ts";
import type { LoopDeps } from "../../../src/consul/watch/blocking_query.ts";
import { ConnectionBudget } from "../../../src/consul/watch/budget.ts";
import { serversWatchTerms } from "../../../src/consul/watch/watch_terms.ts";
import { runtimeEngine } from "../../../src/net/mod.ts";
import { FakeClock } from "../clock/clock.ts";
import { type Handler, ScriptedAgent } from "./scripted_agent.ts";

/** The outcome of a gRPC call: an answer, or the error that it rejects with. */
type CallOutcome = Uint8Array | ProxyError;

export class CatalogRig {
  readonly clock: FakeClock = new FakeClock();
  readonly script: ScriptedAgent;
  readonly catalog: NodeCatalog;
  readonly deps: LoopDeps;
  /** Names of gRPC calls so far. */
  readonly called: string[] = [];
  outcome: CallOutcome = new ProxyError("agent_unreachable", "the test set no outcome");
  readonly #budget: ConnectionBudget;

  private constructor(script: ScriptedAgent, options: Partial<AgentOptions>) {
    const { clock } = this;
    const stats = new Stats();
    this.script = script;
    const agent = script.options(options);
    const client = new Client(agent, {
      carrier: createAgentCarrier(agent, { engine: runtimeEngine(), clock }),
      token: new TokenSource(agent, { clock, log: silentLog }),
      stats,
    });
    const reach = new ConsulReach();
    this.#budget = new ConnectionBudget({ connections: 12, clock, log: silentLog, stats });
    this.deps = {
      clock,
      stats,
      log: silentLog,
      random: seededRandom(7),
      budget: this.#budget,
      reach,
      terms: serversWatchTerms(reach),
    };
    const servers = {
      call: <Request, Response>(method: Method<Request, Response>, request: Request) => {
        method.encode(request);
        this.called.push(method.path.replace(/^.*\//, ""));
        const { outcome } = this;
        return outcome instanceof ProxyError
          ? Promise.reject(outcome)
          : Promise.resolve(method.decode(outcome));
      },
    };
    this.catalog = { client, servers, node: "virt-1" };
  }

  static async start(handler: Handler, options: Partial<AgentOptions> = {}): Promise<CatalogRig> {
    return new CatalogRig(await ScriptedAgent.start(handler), { token: "any", ...options });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#budget.close();
    this.catalog.client.carrier.close();
    await this.script[Symbol.asyncDispose]();
  }
}
