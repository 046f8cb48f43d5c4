/** The places of servers, and their lookup when all known servers have failed. @module */

import { execFile } from "node:child_process";
import { lookup } from "node:dns/promises";
import { canonicalIpText, type Clock, hostFault, messageOf, ProxyError } from "../../base/mod.ts";
import { SERVER_LIMIT } from "./methods.ts";
import type { ServerAddresses } from "./types.ts";

const EXEC = "exec=";
const LOOKUP_MS = 5_000;
const COMMAND_MS = 10_000;
const OUTPUT_LIMIT_BYTES = 64 * 1024;

/** All addresses of a name; rejects where there is none. */
export type Lookup = (name: string) => Promise<readonly string[]>;

export async function systemLookup(name: string): Promise<readonly string[]> {
  return (await lookup(name, { all: true })).map(({ address }) => address);
}

/**
 * `ADDRESS[,ADDRESS]`, IP addresses (`[::1]` or `::1`) and DNS names, or `exec=COMMAND ARGUMENTS`. Fails with
 * `config_invalid`.
 */
export function readServerPlaces(text: string, flag = "-servers"): ServerAddresses {
  const unusable = (fact: string) =>
    new ProxyError(
      "config_invalid",
      `Cannot use ${flag} ${shown(text)}: ${fact}; write ADDRESS[,ADDRESS] or exec=COMMAND`,
    );
  const written = text.trim();
  if (written.startsWith(EXEC)) {
    const command = written.slice(EXEC.length).split(/\s+/).filter((word) => word !== "");
    if (command.length === 0) throw unusable("no command follows exec=");
    return { kind: "exec", command };
  }
  const names = written.split(",").map((name) => readName(name.trim(), unusable));
  if (names.length > SERVER_LIMIT) {
    throw unusable(`it has more than ${SERVER_LIMIT} addresses`);
  }
  return { kind: "names", names: [...new Set(names)] };
}

function readName(name: string, unusable: (fact: string) => ProxyError): string {
  if (name === "") throw unusable("an address is empty");
  const bare = /^\[(.*)\]$/s.exec(name)?.[1] ?? name;
  const ip = canonicalIpText(bare);
  if (ip !== undefined) return ip;
  if (/^(\[.*\]|[^:]+):\d+$/s.test(name)) {
    throw unusable("it has a port; ports are given with -grpc-port and -http-port");
  }
  if (name.includes("://")) throw unusable("it is a URL; write the host alone");
  const fault = hostFault(bare);
  if (fault !== undefined) throw unusable(`it names ${fault}`);
  const dnsName = name.toLowerCase().replace(/\.$/, "");
  const isName = dnsName.split(".").every((label) => /^[a-z0-9_][a-z0-9_-]{0,62}$/.test(label));
  if (!isName || dnsName.length > 253) {
    throw unusable(`${shown(name)} is neither an IP address nor a DNS name`);
  }
  return dnsName;
}

/** IP addresses, each once. Rejects with `agent_unreachable` where there is none. */
export async function findServers(
  places: ServerAddresses,
  deps: { readonly clock: Clock; readonly lookup: Lookup },
): Promise<readonly string[]> {
  const found = places.kind === "exec"
    ? await runCommand(places.command, deps.clock)
    : await lookUp(places.names, deps);
  return [...new Set(found)].slice(0, SERVER_LIMIT);
}

async function lookUp(
  names: readonly string[],
  { clock, lookup }: { readonly clock: Clock; readonly lookup: Lookup },
): Promise<string[]> {
  let fault: unknown;
  const found = await Promise.all(names.map(async (name) => {
    if (canonicalIpText(name) !== undefined) return [name];
    try {
      return (await within(clock, lookup(name))).flatMap((text) => canonicalIpText(text) ?? []);
    } catch (error) {
      fault = new Error(`${name}: ${messageOf(error)}`);
      return [];
    }
  }));
  const all = found.flat();
  // A name that is not known now does not hinder the others.
  if (all.length === 0) throw nowhere(messageOf(fault ?? new Error("their names have no address")));
  return all;
}

function within<T>(clock: Clock, answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = clock.after(LOOKUP_MS, () => reject(new Error("no answer in time")));
    answer.then(resolve, reject).finally(() => timer.cancel());
  });
}

/** Runs without a shell: blanks separate words, and no character has a special meaning. */
function runCommand([program = "", ...words]: readonly string[], clock: Clock): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      program,
      words,
      { maxBuffer: OUTPUT_LIMIT_BYTES, encoding: "utf8" },
      (error, stdout, stderr) => {
        timer.cancel();
        try {
          if (error) throw nowhere(`${program} ${whyFailed(error, stderr)}`);
          resolve(readAddresses(program, stdout));
        } catch (failure) {
          reject(failure);
        }
      },
    );
    const timer = clock.after(COMMAND_MS, () => {
      child.kill("SIGKILL");
      // Its child processes may hold the pipes open for longer.
      child.stdout?.destroy();
      child.stderr?.destroy();
      reject(nowhere(`${program} did not end within ${COMMAND_MS} ms`));
    });
  });
}

function whyFailed(error: Error, stderr: string): string {
  const { code, signal } = error as { readonly code?: unknown; readonly signal?: unknown };
  if (code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER") return "prints too much";
  if (signal) return `was ended by ${String(signal)}`;
  if (typeof code !== "number") return `cannot be run: ${messageOf(error)}`;
  const line = stderr.trim().split("\n")[0] ?? "";
  return `ended with ${code}${line === "" ? "" : `: ${shown(line)}`}`;
}

function readAddresses(program: string, stdout: string): string[] {
  const words = stdout.split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) throw nowhere(`${program} printed no address`);
  return words.map((word) => {
    const ip = canonicalIpText(word.replace(/^\[(.*)\]$/, "$1"));
    if (ip === undefined) {
      throw nowhere(`${program} printed ${shown(word)}, which is no IP address`);
    }
    return ip;
  });
}

function nowhere(fact: string): ProxyError {
  return new ProxyError("agent_unreachable", `Cannot find Consul's servers: ${fact}`);
}

function shown(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}...` : text);
}
