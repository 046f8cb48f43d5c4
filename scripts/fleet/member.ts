/**
 * One proxy of a fleet, as far as Consul's servers can tell: its session, its client and all of its
 * watches, without listeners.
 *
 * @module
 */

import { type ProxyError, silentLog, Stats, systemClock } from "../../src/base/mod.ts";
import type { Consul, WatchSink } from "../../src/consul/mod.ts";
import { createServers } from "../../src/consul/create_servers.ts";
import type { ServersOptions } from "../../src/consul/servers/types.ts";
import type { Intentions, Leaf } from "../../src/consul/model/values.ts";
import { runtimeEngine } from "../../src/net/mod.ts";

interface MemberOptions {
  readonly servers: ServersOptions;
  readonly proxyId: string;
  readonly service: string;
  readonly upstreams: readonly string[];
  /** Has its certificate signed. */
  readonly signs: boolean;
}

export class Member {
  readonly stats: Stats = new Stats();
  intentions: Intentions | undefined;
  /** How often watches reported which failure: `chain agent_failed`. */
  readonly failures: Map<string, number> = new Map();
  /** When everything was there, by `performance.now()`. */
  servedMs = 0;
  /** Something that was there went away. */
  losses = 0;
  /** Called after each change of the intentions. */
  onRules: () => void = () => {};
  readonly #missing = new Set<string>();
  readonly #agent: Required<Consul>;

  constructor(options: MemberOptions) {
    const { service, upstreams, signs } = options;
    this.#agent = createServers(options.servers, {
      clock: systemClock,
      random: Math.random,
      log: silentLog,
      stats: this.stats,
      connections: 100,
      engine: runtimeEngine(),
    });
    const agent = this.#agent;
    const leaf = signs && this.#sink<Leaf>("leaf");
    let isSigning = false;
    agent.watchRegistration(
      options.proxyId,
      this.#sink("registration", () => {
        // Which datacenter it is for is known from here on.
        if (leaf && !isSigning) agent.watchLeaf(service, leaf);
        isSigning = true;
      }),
    );
    agent.watchRoots(this.#sink("roots"));
    agent.watchMesh(this.#sink("mesh"));
    agent.watchDefaults({ kind: "proxy-defaults", name: "global" }, this.#sink("proxy-defaults"));
    agent.watchIntentions(
      service,
      this.#sink("intentions", (rules) => {
        if (rules.length < (this.intentions?.length ?? 0)) this.losses++;
        this.intentions = rules;
        this.onRules();
      }),
    );
    for (const upstream of upstreams) {
      agent.watchChain({ service: upstream, datacenter: "" }, this.#sink(`chain ${upstream}`));
      let known = 0;
      agent.watchHealth(
        { service: upstream, datacenter: "", filter: "" },
        this.#sink(`health ${upstream}`, ({ length }) => {
          if (length < known) this.losses++;
          known = length;
        }),
      );
    }
  }

  /** The parts that have not come yet. */
  get missing(): readonly string[] {
    return [...this.#missing];
  }

  /** Watches that have failed since their last answer. */
  get failing(): number {
    return this.#agent.watchStates().filter(({ failures }) => failures > 0).length;
  }

  requests(): number {
    return this.stats.samples().filter(({ name }) => name === "agent_requests_total")
      .reduce((sum, { value }) => sum + value, 0);
  }

  close(): void {
    this.#agent.close();
  }

  #sink<T>(name: string, onValue: (value: T) => void = () => {}): WatchSink<T> {
    this.#missing.add(name);
    return {
      onValue: (value) => {
        if (this.#missing.delete(name) && this.#missing.size === 0) {
          this.servedMs = performance.now();
        }
        onValue(value);
      },
      onError: ({ code }: ProxyError) => {
        const what = `${name.split(" ")[0]} ${code}`;
        this.failures.set(what, (this.failures.get(what) ?? 0) + 1);
      },
    };
  }
}
