/**
 * Consul's catalog with its sessions, as far as one node goes: the writes and reads of a proxy that
 * registers itself, without a socket. Checks of type `session` follow their session as on 1.22.7.
 *
 * @module
 */

import { ProxyError } from "../../../src/base/mod.ts";
import type { ConsulCall } from "../../../src/consul/http/carrier.ts";
import type { Client, ConsulReply } from "../../../src/consul/http/client.ts";

interface Check {
  readonly CheckID: string;
  readonly ServiceID: string;
  readonly Type: string;
  readonly Status: string;
  readonly Output: string;
  readonly Definition: { readonly SessionName?: string };
}

interface Row {
  readonly ID: string;
  readonly [field: string]: unknown;
}

interface Written {
  readonly Address?: string;
  readonly ServiceID?: string;
  readonly CheckID?: string;
  readonly Service?: Row;
  readonly Checks?: readonly Partial<Check>[];
}

export class MemoryCatalog {
  /** An agent keeps the node. */
  agentNode = false;
  /** Undefined: the node is not there. */
  address: string | undefined;
  readonly services: Map<string, Row> = new Map();
  readonly checks: Map<string, Check> = new Map();
  /** Names by id. */
  readonly sessions: Map<string, string> = new Map();
  /** `PUT register web`, `PUT renew`, ...: the writes, in order. */
  readonly writes: string[] = [];
  /**
   * By service id: how often it or its checks changed, as a blocking query on its health sees it.
   */
  readonly changes: Map<string, number> = new Map();
  readonly #shown = new Map<string, string>();
  /** Says why a call fails. */
  refuses: (call: ConsulCall) => ProxyError | undefined = () => undefined;
  #index = 10;
  #lastSession = 0;
  readonly #waiting = new Set<() => void>();

  readonly client: Client = {
    options: { namespace: "", partition: "", datacenter: "", stale: false },
    hasToken: true,
    call: (call: ConsulCall) => this.#call(call),
  } as unknown as Client;

  /** `alive:passing/web-proxy`, `application:critical/web`, ...: sorted. */
  get health(): string[] {
    return [...this.checks.values()].map(({ CheckID, ServiceID, Status }) =>
      `${CheckID.replace(/^.*:/, "")}:${Status}/${ServiceID}`
    ).sort();
  }

  /** The servers end the session of that name. */
  expire(name: string): void {
    for (const [id, session] of this.sessions) if (session === name) this.sessions.delete(id);
    this.#follow(name, "critical");
    this.#changed();
  }

  drop(serviceId: string): void {
    this.services.delete(serviceId);
    for (const [id, check] of this.checks) {
      if (check.ServiceID === serviceId) this.checks.delete(id);
    }
    this.#changed();
  }

  dropNode(): void {
    this.address = undefined;
    this.services.clear();
    this.checks.clear();
    this.sessions.clear();
    this.#changed();
  }

  put(check: Check): void {
    this.checks.set(check.CheckID, check);
    this.#changed();
  }

  async #call(call: ConsulCall): Promise<ConsulReply> {
    const refused = this.refuses(call);
    if (refused) throw refused;
    const what = call.path.replace(/^\/v1\//, "");
    const body = (call.body ?? {}) as Written;
    const [area = "", verb = "", id = ""] = what.split("/");
    if (call.method === "PUT") {
      const name = body.Service?.ID ?? body.ServiceID ??
        body.Checks?.map((check) => check.ServiceID);
      this.writes.push([verb, name].flat().filter(Boolean).join(" "));
    }
    switch (`${call.method ?? "GET"} ${area}/${verb}`) {
      case "PUT catalog/register":
        return this.#register(body);
      case "PUT catalog/deregister":
        if (body.CheckID) this.checks.delete(body.CheckID);
        else this.drop(body.ServiceID ?? "");
        return this.#reply(true);
      case "PUT session/create":
        return this.#createSession((call.body as { Name: string }).Name);
      case "PUT session/renew":
        return this.sessions.has(id) ? this.#reply([]) : { ...this.#reply(null), status: 404 };
      case "PUT session/destroy":
        this.expire(this.sessions.get(id) ?? "");
        return this.#reply(true);
      case "GET health/node":
        await this.#wait(call);
        return this.#reply(
          /serfHealth/.test(call.query?.["filter"] ?? "")
            ? this.agentNode ? [{ CheckID: "serfHealth" }] : []
            : [...this.checks.values()],
        );
      case "GET catalog/node-services":
        return this.#reply({
          Node: this.address === undefined ? null : { Datacenter: "dc1" },
          Services: call.query?.["filter"] === 'ID == ""' ? [] : [...this.services.values()],
        });
    }
    throw new Error(`the test set no answer to ${call.path}`);
  }

  #register({ Address, Service, Checks = [] }: Written): ConsulReply {
    this.address ??= Address ?? "";
    if (Service) this.services.set(Service.ID, Service);
    for (const check of Checks) {
      if (!this.services.has(check.ServiceID ?? "")) {
        throw new ProxyError("agent_failed", `Unknown service ID ${check.ServiceID}`);
      }
      this.checks.set(check.CheckID ?? "", {
        CheckID: "",
        ServiceID: "",
        Type: "",
        Status: "critical",
        Output: "",
        Definition: {},
        ...check,
      });
    }
    this.#changed();
    return this.#reply(true);
  }

  #createSession(name: string): ConsulReply {
    if (this.address === undefined) {
      throw new ProxyError("agent_failed", "apply failed: Missing node registration");
    }
    const ID = `session-${++this.#lastSession}`;
    this.sessions.set(ID, name);
    this.#follow(name, "passing");
    this.#changed();
    return this.#reply({ ID });
  }

  #follow(name: string, status: string): void {
    for (const check of this.checks.values()) {
      if (check.Type === "session" && check.Definition.SessionName === name) {
        this.checks.set(check.CheckID, { ...check, Status: status });
      }
    }
  }

  /** Until there is news. */
  #wait({ query, signal }: ConsulCall): Promise<void> {
    if (query?.["index"] !== String(this.#index)) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const wake = () => {
        this.#waiting.delete(wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal?.addEventListener("abort", () => reject(new ProxyError("closed", "given up")));
    });
  }

  #changed(): void {
    this.#index++;
    for (const id of new Set([...this.services.keys(), ...this.#shown.keys()])) {
      const checks = [...this.checks.values()].filter(({ ServiceID }) => ServiceID === id);
      const shown = JSON.stringify([this.services.get(id), checks]);
      if (shown === this.#shown.get(id)) continue;
      this.#shown.set(id, shown);
      this.changes.set(id, (this.changes.get(id) ?? 0) + 1);
    }
    for (const wake of [...this.#waiting]) wake();
  }

  #reply(json: unknown): ConsulReply {
    return {
      status: 200,
      index: this.#index,
      contentHash: "",
      filteredByAcls: false,
      defaultAclPolicy: "allow",
      json,
    };
  }
}
