/**
 * A mesh on the embedded agent. Its sidecars run on the engine that runs the test.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import { systemClock, systemRandom } from "../../../src/base/mod.ts";
import { type DevAgent, type DevAgentOptions, startDevAgent } from "../../../src/dev/mod.ts";
import { Mesh, type StoryAgent } from "./mesh.ts";
import { loopbackHost } from "../process/ports.ts";
import { OWN_ENGINE } from "../process/postern.ts";

/** Beside what every agent of a story has: what only the embedded one can. */
export type DevMeshOptions = StoryAgent & Omit<Partial<DevAgentOptions>, keyof StoryAgent>;

export class DevMesh extends Mesh {
  /** For what no operator can do: faults, and what the agent was asked. */
  readonly agent: DevAgent;
  readonly host: string;
  readonly address: string;
  readonly managementToken: string;
  override readonly engine = OWN_ENGINE;

  private constructor(agent: DevAgent, host: string, managementToken: string) {
    super();
    this.agent = agent;
    this.host = host;
    this.address = agent.address.replace(/^http:\/\//, "");
    this.managementToken = managementToken;
  }

  /** No intention: nobody may. */
  static async start(options: DevMeshOptions = {}): Promise<DevMesh> {
    const { acl = false, clientAgent = false, ...rest } = options;
    const host = loopbackHost();
    const managementToken = acl ? randomUUID() : "";
    const tokens = [{ secretId: managementToken, management: true }];
    const agent = await startDevAgent({
      ...{ clock: systemClock, random: systemRandom, host, defaultIntentionPolicy: "deny" },
      ...(acl ? { acl: { defaultPolicy: "deny", tokens } } : {}),
      asClientAgent: clientAgent,
      ...rest,
    });
    return new DevMesh(agent, host, managementToken);
  }

  start(): Promise<void> {
    return this.agent.start();
  }

  /** It remembers everything. */
  kill(): Promise<void> {
    return Promise.resolve(this.agent.stop());
  }

  wipeCluster(): Promise<void> {
    return this.agent.restart({ forget: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent[Symbol.asyncDispose]();
  }
}
