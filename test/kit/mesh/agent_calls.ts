/**
 * The calls that an operator makes to an agent's HTTP interface, and its reads: the same for the real
 * agent and the one in memory.
 *
 * @module
 */

import { generateKeyPairSync, randomUUID } from "node:crypto";
import { request } from "node:http";
import { request as requestSecurely } from "node:https";
import { eventually } from "../process/process.ts";

export interface Reply {
  readonly status: number;
  readonly body: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

export interface CallOptions {
  readonly body?: unknown;
  readonly token?: string;
  /** Instead of the mesh's own. */
  readonly address?: string;
}

const CALL_TIMEOUT_MS = 20_000;

export abstract class AgentCalls {
  /** `host:port` of the HTTP interface. */
  abstract readonly address: string;
  /** Sent with each call that names no other; empty without ACLs. */
  abstract readonly managementToken: string;

  /** HTTPS: the CA to trust, and the server's name; absent: plain HTTP. */
  protected get callTls(): { readonly ca: string; readonly servername: string } | undefined {
    return undefined;
  }

  /** One HTTP call on a connection of its own. */
  call(method: string, path: string, options: CallOptions = {}): Promise<Reply> {
    const token = options.token ?? this.managementToken;
    const [host, port] = (options.address ?? this.address).split(":");
    return new Promise((resolve, reject) => {
      const headers = token ? { "X-Consul-Token": token } : {};
      const send = this.callTls ? requestSecurely : request;
      const how = { host, port, method, path, agent: false, headers, ...this.callTls } as const;
      const sent = send(how, (reply) => {
        let body = "";
        reply.setEncoding("utf8");
        reply.on("data", (chunk: string) => body += chunk);
        reply.on(
          "end",
          () => resolve({ status: reply.statusCode ?? 0, body, headers: reply.headers }),
        );
        reply.on("error", reject);
      });
      sent.setTimeout(CALL_TIMEOUT_MS, () => sent.destroy(new Error(`${path}: no answer in time`)));
      sent.on("error", reject);
      sent.end(options.body === undefined ? undefined : JSON.stringify(options.body));
    });
  }

  /** A read that must answer 200 with JSON. */
  async get<T>(path: string, options: CallOptions = {}): Promise<T> {
    return JSON.parse(await this.#must("GET", path, options)) as T;
  }

  /** A write that must answer 200. */
  async put(path: string, body?: unknown, options: CallOptions = {}): Promise<string> {
    return await this.#must("PUT", path, { ...options, body });
  }

  async configEntry(entry: Readonly<Record<string, unknown>>): Promise<void> {
    await this.put("/v1/config", entry);
  }

  /** Sets the rule for one pair; `undefined` removes it. */
  async intention(
    source: string,
    destination: string,
    action: "allow" | "deny" | undefined,
  ): Promise<void> {
    const path = `/v1/connect/intentions/exact?source=${source}&destination=${destination}`;
    if (action) await this.put(path, { Action: action });
    else await this.#must("DELETE", path, {});
  }

  /** Takes an instance out of service, or puts it back. */
  async setMaintenance(serviceId: string, enable: boolean): Promise<void> {
    await this.put(`/v1/agent/service/maintenance/${serviceId}?enable=${enable}`);
  }

  async deregister(serviceId: string): Promise<void> {
    await this.put(`/v1/agent/service/deregister/${serviceId}`);
  }

  async preparedQuery(query: Readonly<Record<string, unknown>>): Promise<void> {
    await this.#must("POST", "/v1/query", { body: query });
  }

  /** A token with the service identity of `service`: the smallest that runs a sidecar. `ttl`: `60s`. */
  async serviceToken(service: string, options: { readonly ttl?: string } = {}): Promise<string> {
    const life = options.ttl === undefined ? {} : { ExpirationTTL: options.ttl };
    return await this.#newToken({ ServiceIdentities: [{ ServiceName: service }], ...life });
  }

  /** A token with exactly these rules. */
  async tokenWithRules(rules: string): Promise<string> {
    const name = `policy-${randomUUID()}`;
    await this.put("/v1/acl/policy", { Name: name, Rules: rules });
    return await this.#newToken({ Policies: [{ Name: name }] });
  }

  async deleteToken(secretId: string): Promise<void> {
    const self = await this.get<{ AccessorID: string }>("/v1/acl/token/self", { token: secretId });
    await this.#must("DELETE", `/v1/acl/token/${self.AccessorID}`, {});
  }

  /** Gives the mesh a new root key; the old root stays listed beside the new one. */
  async rotateCa(): Promise<void> {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const pem = privateKey.export({ type: "sec1", format: "pem" });
    const now = await this.get<{ Config: Record<string, unknown> }>("/v1/connect/ca/configuration");
    await this.put("/v1/connect/ca/configuration", {
      Provider: "consul",
      Config: { ...now.Config, PrivateKey: pem, RootCert: "" },
    });
  }

  async #must(method: string, path: string, options: CallOptions): Promise<string> {
    const { status, body } = await this.call(method, path, options);
    if (status === 200) return body;
    throw new Error(`Cannot ${method} ${path}: ${status} ${body}`);
  }

  async #newToken(token: Readonly<Record<string, unknown>>): Promise<string> {
    const body = await this.put("/v1/acl/token", { Description: "test", ...token });
    const { SecretID } = JSON.parse(body) as { SecretID: string };
    // A secondary datacenter forwards the write and gets the token by replication.
    await eventually("the token is known here", async () => {
      return (await this.call("GET", "/v1/acl/token/self", { token: SecretID })).status === 200;
    });
    return SecretID;
  }
}
