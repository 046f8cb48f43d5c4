/** A mesh on the embedded agent. Its sidecars run on the engine that runs the test. @module */

import { randomUUID } from "node:crypto";
import { systemClock, systemRandom } from "../../../src/base/mod.ts";
import { startTestAgent, type TestAgent, type TestAgentOptions } from "../dev_agent/test_agent.ts";
import { Mesh, type StoryAgent } from "./mesh.ts";
import { loopbackHost } from "../process/ports.ts";
import { OWN_ENGINE } from "../process/postern.ts";

/** The agent options of stories, and those of the embedded agent alone. */
type DevMeshOptions = StoryAgent & Omit<Partial<TestAgentOptions>, keyof StoryAgent>;

export class DevMesh extends Mesh {
  /** For what no operator can do: faults, restarts, the number of requests. */
  readonly agent: TestAgent;
  readonly host: string;
  readonly address: string;
  readonly managementToken: string;
  override readonly engine = OWN_ENGINE;

  private constructor(agent: TestAgent, host: string, managementToken: string) {
    super();
    this.agent = agent;
    this.host = host;
    this.address = agent.address.replace(/^http:\/\//, "");
    this.managementToken = managementToken;
  }

  /** Without an intention nothing is allowed. */
  static async start(options: DevMeshOptions = {}): Promise<DevMesh> {
    const { acl = false, clientAgent = false, ...rest } = options;
    const host = loopbackHost();
    const managementToken = acl ? randomUUID() : "";
    const tokens = [{ secretId: managementToken, management: true }];
    const agent = await startTestAgent({
      clock: systemClock,
      random: systemRandom,
      host,
      defaultIntentionPolicy: "deny",
      ...(acl ? { acl: { defaultPolicy: "deny", tokens } } : {}),
      asClientAgent: clientAgent,
      ...rest,
    });
    return new DevMesh(agent, host, managementToken);
  }

  start(): Promise<void> {
    return this.agent.start();
  }

  /** The agent keeps its data. */
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
