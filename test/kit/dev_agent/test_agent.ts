/**
 * The embedded agent as tests want it: with faults, with Consul's ACLs, as a client agent, and forgetful.
 *
 * @module
 */

import { DevAgent, type DevAgentOptions } from "../../../src/dev/agent.ts";
import type { Api } from "../../../src/dev/http/api.ts";
import type { AclOptions } from "./acl/acl.ts";
import { aclsFor, aclTerms } from "./acl/acl_of.ts";
import { addAclRoutes } from "./acl/acl_routes.ts";
import { guard } from "./acl/guard.ts";
import { answerAsClientAgent } from "./client_agent.ts";
import { type Fault, Faults } from "./faults.ts";

export interface TestAgentOptions extends Omit<DevAgentOptions, "acl" | "extend"> {
  /** Absent: ACLs are off. */
  readonly acl?: AclOptions;
  /** Answers like a client agent instead of a server. */
  readonly asClientAgent?: boolean;
}

export class TestAgent extends DevAgent {
  readonly #faults: Faults;

  constructor(options: TestAgentOptions) {
    const faults = new Faults();
    const { acl, asClientAgent = false, ...rest } = options;
    const aclOf = aclsFor(acl);
    const extend = (api: Api) => {
      faults.extend(api);
      if (asClientAgent) answerAsClientAgent(api);
      if (acl) guard(api, aclOf);
      addAclRoutes(api, aclOf);
    };
    super({ ...rest, acl: aclTerms(acl), extend });
    this.#faults = faults;
  }

  /** Open connections and requests so far, for tests of a client's budget. */
  get load(): { readonly connections: number; readonly requests: number } {
    return { connections: this.connections, requests: this.#faults.requests };
  }

  /** Plans a fault for the next `times` requests whose `METHOD /target` matches. */
  breakNext(on: RegExp, fault: Fault, times = 1): void {
    this.#faults.add(on, fault, times);
  }

  /** Ends all planned faults. */
  mend(): void {
    this.#faults.clear();
  }

  /**
   * Stops and starts. `forget`: as a `-dev` agent comes back, with nothing, its trust domain and CA
   * included. `rewind`: the same data, counted from a low index again.
   */
  async restart(
    options: { readonly forget?: boolean; readonly rewind?: boolean } = {},
  ): Promise<void> {
    this.stop();
    if (options.forget) this.reset();
    if (options.rewind) this.world.store.rewind(12);
    await this.start();
  }
}

/** Starts an agent that listens before this resolves. */
export async function startTestAgent(options: TestAgentOptions): Promise<TestAgent> {
  const agent = new TestAgent(options);
  await agent.start();
  return agent;
}
