/**
 * The connections of a process as the system sees them: no program needs to report them, or can be
 * wrong.
 *
 * @module
 */

import { readdir, readFile, readlink } from "node:fs/promises";
import type { Place } from "../wire/echo.ts";

/** ESTABLISHED, as the kernel writes it. */
const ESTABLISHED = "01";

/** The other ends of the IPv4 connections of a process, one for each connection. */
export async function connectedTo(pid: number): Promise<Place[]> {
  const inodes = await socketInodes(pid);
  const lines = (await readFile(`/proc/${pid}/net/tcp`, "utf8")).trim().split("\n").slice(1);
  return lines.flatMap((line) => {
    const [, , remote = "", state, , , , , , inode = ""] = line.trim().split(/\s+/);
    return state === ESTABLISHED && inodes.has(inode) ? [placeOf(remote)] : [];
  });
}

async function socketInodes(pid: number): Promise<ReadonlySet<string>> {
  const inodes = new Set<string>();
  for (const fd of await readdir(`/proc/${pid}/fd`)) {
    // It may have been closed a moment ago.
    const target = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => "");
    const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1];
    if (inode !== undefined) inodes.add(inode);
  }
  return inodes;
}

/** `0100007F:1F90` is 127.0.0.1:8080: an address is written as the number that its memory holds. */
function placeOf(text: string): Place {
  const [address = "", port = ""] = text.split(":");
  const bytes = address.match(/../g)?.map((byte) => parseInt(byte, 16)) ?? [];
  return { host: bytes.reverse().join("."), port: parseInt(port, 16) };
}
