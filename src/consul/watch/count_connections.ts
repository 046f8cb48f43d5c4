/**
 * The number of connections that an agent counts for this host: those of every process to the agent's
 * address. Linux lists them; elsewhere, and where the list is very long, the number is not known.
 *
 * @module
 */

import { lookup } from "node:dns/promises";
import { open } from "node:fs/promises";
import type { Address } from "../../base/mod.ts";

/** Some 27,000 connections, also those in TIME_WAIT; reading more takes too long. */
const LIST_LIMIT_BYTES = 1 << 22;
const CHUNK_BYTES = 64 << 10;
const ESTABLISHED = "01";

/** `list` reads the list of one IP version. Never rejects. */
export async function countConnections(
  agent: Address,
  list: (version: 4 | 6) => Promise<string | undefined> = readList,
): Promise<number | undefined> {
  if (agent.kind === "unix") return undefined;
  const found = await lookup(agent.host).catch(() => undefined);
  if (!found) return undefined;
  const version = found.family === 6 ? 6 : 4;
  const remote = hexOf(found.address, agent.port);
  const text = remote && await list(version);
  if (text === undefined || remote === undefined) return undefined;
  let count = 0;
  // Columns: slot, local address, remote address, state.
  for (const line of text.split("\n")) {
    const [, , to, state] = line.trim().split(/\s+/, 4);
    if (to === remote && state === ESTABLISHED) count++;
  }
  return count;
}

async function readList(version: 4 | 6): Promise<string | undefined> {
  try {
    await using file = await open(version === 4 ? "/proc/net/tcp" : "/proc/net/tcp6");
    const decoder = new TextDecoder();
    const bytes = new Uint8Array(CHUNK_BYTES);
    let text = "";
    for (;;) {
      const { bytesRead } = await file.read(bytes, 0, bytes.length, null);
      if (bytesRead === 0) return text;
      text += decoder.decode(bytes.subarray(0, bytesRead), { stream: true });
      if (text.length > LIST_LIMIT_BYTES) return undefined;
    }
  } catch {
    // Not Linux, or a sandbox without /proc.
    return undefined;
  }
}

/** `0100007F:2134`: each 32 bits of the address in the machine's byte order, little-endian. */
function hexOf(address: string, port: number): string | undefined {
  const bytes = address.includes(":") ? bytesOfIpv6(address) : address.split(".").map(Number);
  if (bytes.length % 4 !== 0 || bytes.some((byte) => !(byte >= 0 && byte <= 255))) return undefined;
  let text = "";
  for (let at = 0; at < bytes.length; at += 4) {
    for (const byte of bytes.slice(at, at + 4).reverse()) text += hex(byte, 2);
  }
  return `${text}:${hex(port, 4)}`;
}

function bytesOfIpv6(address: string): number[] {
  const [left = [], right = []] = address.split("::").map((part) =>
    part.split(":").filter(Boolean)
  );
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => "0");
  return [...left, ...zeros, ...right].flatMap((word) => {
    const value = parseInt(word, 16);
    return [value >> 8, value & 255];
  });
}

function hex(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, "0");
}
