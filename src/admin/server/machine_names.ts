/**
 * Names of this machine: its host name, and the full names that its files give. No name server is asked:
 * it must not choose the names under which the admin server answers.
 *
 * @module
 */

import { readFileSync } from "node:fs";
import { hostname } from "node:os";

export interface NameFiles {
  readonly hostname: string;
  /** `/etc/hosts`. */
  readonly hosts: string;
  /** `/etc/resolv.conf`. */
  readonly resolv: string;
}

/** Lower case, without the dot at the end. */
export function machineNames(files: NameFiles = systemFiles()): readonly string[] {
  const host = files.hostname.toLowerCase().replace(/\.$/, "");
  if (!/^[a-z0-9_.-]+$/.test(host) || host.startsWith("localhost")) return [];
  const names = new Set([host]);
  const [short = ""] = host.split(".");
  if (!/^\d+$/.test(short)) names.add(short);
  for (const [, ...aliases] of wordsOf(files.hosts)) {
    if (aliases.some((alias) => names.has(alias))) {
      for (const alias of aliases) names.add(alias);
    }
  }
  if (host === short) {
    for (const [key, ...domains] of wordsOf(files.resolv)) {
      if (key !== "search" && key !== "domain") continue;
      for (const domain of domains) names.add(`${short}.${domain.replace(/\.$/, "")}`);
    }
  }
  return [...names];
}

function wordsOf(text: string): readonly (readonly string[])[] {
  return text.toLowerCase().split("\n").map((line) =>
    line.replace(/[#;].*/, "").split(/\s+/).filter((word) => word !== "")
  );
}

function systemFiles(): NameFiles {
  return { hostname: hostname(), hosts: read("/etc/hosts"), resolv: read("/etc/resolv.conf") };
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8").slice(0, 100_000);
  } catch {
    // A missing file only gives fewer names.
    return "";
  }
}
