/** The contents of a package besides the executable: manual, completion, units, documents. @module */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { SHELLS } from "../../src/app/command_line/args.ts";
import { completionScript } from "../../src/app/command_line/shell_scripts.ts";
import { manPages } from "../man.ts";
import { gzip, type PackedEntry } from "./archives.ts";

export const ROOT: string = join(import.meta.dirname ?? ".", "..", "..");
const SERVICE = join(ROOT, "scripts", "service");
/** Where the units say that the executable is. */
const UNIT_PATH = "/usr/local/bin/postern";

export function textFile(path: string, text: string, mode: number = 0o644): PackedEntry {
  return { kind: "file", path, mode, bytes: new TextEncoder().encode(text) };
}

function source(...parts: readonly string[]): string {
  return readFileSync(join(ROOT, ...parts), "utf8");
}

/** The units for systemd, with the executable's path, and the files of other supervisors. */
function serviceFiles(executable: string): readonly { name: string; text: string }[] {
  return readdirSync(SERVICE).sort().map((name) => {
    const text = readFileSync(join(SERVICE, name), "utf8").replaceAll(UNIT_PATH, executable);
    return { name, text };
  });
}

const isUnit = (name: string) => /\.(?:service|socket|target|path)$/.test(name);

/** Paths of a Debian system. */
export function debianFiles(executable: Uint8Array, time: Date): readonly PackedEntry[] {
  const doc = "usr/share/doc/postern";
  const completions = {
    bash: "usr/share/bash-completion/completions/postern",
    zsh: "usr/share/zsh/vendor-completions/_postern",
    fish: "usr/share/fish/vendor_completions.d/postern.fish",
  };
  const compressed = (path: string, text: string): PackedEntry => {
    return { kind: "file", path, mode: 0o644, bytes: gzip(new TextEncoder().encode(text)) };
  };
  return [
    { kind: "file", path: "usr/bin/postern", mode: 0o755, bytes: executable },
    { kind: "directory", path: "etc/postern", mode: 0o755 },
    ...manPages(time).map(({ file, text }) => compressed(`usr/share/man/man1/${file}.gz`, text)),
    ...SHELLS.map((shell) => textFile(completions[shell], completionScript(shell))),
    ...serviceFiles("/usr/bin/postern").map(({ name, text }) =>
      textFile(`${isUnit(name) ? "usr/lib/systemd/system" : `${doc}/examples`}/${name}`, text)
    ),
    textFile(`${doc}/README.md`, source("README.md")),
    textFile(`${doc}/copyright`, source("LICENSE")),
    compressed(`${doc}/changelog.gz`, source("CHANGELOG.md")),
  ];
}

/** Paths below a prefix such as `/usr/local`, in a directory of the archive's name. */
export function archiveFiles(
  executable: Uint8Array,
  { time, directory }: { readonly time: Date; readonly directory: string },
): readonly PackedEntry[] {
  const completions = {
    bash: "share/bash-completion/completions/postern",
    zsh: "share/zsh/site-functions/_postern",
    fish: "share/fish/vendor_completions.d/postern.fish",
  };
  const files: readonly PackedEntry[] = [
    { kind: "file", path: "bin/postern", mode: 0o755, bytes: executable },
    ...manPages(time).map(({ file, text }) => textFile(`share/man/man1/${file}`, text)),
    ...SHELLS.map((shell) => textFile(completions[shell], completionScript(shell))),
    ...serviceFiles(UNIT_PATH).map(({ name, text }) => textFile(`share/postern/${name}`, text)),
    ...["README.md", "CHANGELOG.md", "LICENSE"].map((name) =>
      textFile(`share/doc/postern/${name}`, source(name))
    ),
  ];
  return files.map((file) => ({ ...file, path: `${directory}/${file.path}` }));
}
