import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { promisify } from "node:util";
import { peer } from "../../scripts/peers.ts";
import { type Postern, posternCommand, startPostern } from "../kit/process/postern.ts";

/** Completes `$LINE` with the script of `postern completion`, and prints what the shell would insert or offer. */
const SHELLS: Readonly<Record<string, { readonly flags: readonly string[]; script: string }>> = {
  // The words as readline gives them: it splits at these characters, too, and keeps them as words.
  bash: {
    flags: ["--norc", "--noprofile", "-c"],
    script: String.raw`
source <(postern completion bash)
COMP_LINE=$LINE COMP_POINT=${"${#LINE}"} COMP_WORDS=() word=
for ((at = 0; at < ${"${#LINE}"}; at++)); do
  c=${"${LINE:at:1}"}
  case $c in
    ' ') [[ -z $word ]] || COMP_WORDS+=("$word"); word= ;;
    [:=]) [[ -z $word ]] || COMP_WORDS+=("$word"); COMP_WORDS+=("$c"); word= ;;
    *) word+=$c ;;
  esac
done
COMP_WORDS+=("$word") COMP_CWORD=${"${#COMP_WORDS[@]}"}-1
_postern
((${"${#COMPREPLY[@]}"} == 0)) || printf '%s\n' "${"${COMPREPLY[@]}"}"`,
  },
  // A terminal of its own: only an interactive zsh completes. ^D after the answer lists nothing more.
  zsh: {
    flags: ["-f", "-c"],
    script: String.raw`
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -u -D'
zpty -w shell 'source <(postern completion zsh); zstyle ":completion:*" list-prompt ""'
zpty -w shell 'LISTMAX=1000; setopt no_beep; print -r -- "be""gin"'
zpty -r shell seen '*begin*'
zpty -w -n shell "$LINE"$'\t'
zpty -w -n shell $'\x01print -r -- "\x05" ; print -r -- "e""nd"\n'
zpty -r shell seen $'*end\r*'
print -r -- "$seen"`,
  },
  fish: {
    flags: ["--no-config", "-c"],
    script:
      'postern completion fish | source; complete -C "$LINE" | string replace -r "\\t.*" ""; true',
  },
};

const SERVICE = `completed-${process.pid}`;
let directory = "";
let proxy: Postern | undefined;
before(async () => {
  directory = await mkdtemp(join(tmpdir(), "postern-completion-"));
  const command = posternCommand().map((word) => `'${word}'`).join(" ");
  await writeFile(join(directory, "postern"), `#!/bin/sh\nexec ${command} "$@"\n`, { mode: 0o755 });
  await writeFile(join(directory, "mesh.json"), "{}");
  // Its agent is away: the admin server answers all the same.
  proxy = startPostern(["proxy", "-sidecar-for", SERVICE, "-http-addr", "127.0.0.1:1"]);
  await proxy.adminAddress();
});
after(async () => {
  await proxy?.stop();
  await rm(directory, { recursive: true, force: true });
});

async function completed(shell: string, line: string): Promise<readonly string[]> {
  const { flags = [], script = "" } = SHELLS[shell] ?? {};
  const env = {
    ...process.env,
    PATH: `${directory}:${process.env.PATH}`,
    LINE: line,
    TERM: "dumb",
    HOME: directory,
  };
  const program = shell === "bash" ? "bash" : peer(shell);
  const run = promisify(execFile)(program, [...flags, script], { env, timeout: 60_000 });
  run.child.stdin?.end();
  return (await run).stdout.split(/\r?\n/).map((text) => text.trim()).filter((text) => text !== "");
}

for (const shell of Object.keys(SHELLS)) {
  // Bash inserts only what follows the last : or =.
  const whole = shell === "bash" ? "" : "-log-level=";
  for (
    const [line, want] of [
      ["postern wait-r", "wait-ready"],
      ["postern proxy -log-level=wa", `${whole}warn`],
      [`postern explain -sidecar-for ${SERVICE.slice(0, -1)}`, SERVICE],
      ["postern explain endpoint_refu", "endpoint_refused"],
      ["postern events -kind certi", "certificate"],
      [`postern check -token-file DIR/mesh.js`, "DIR/mesh.json"],
    ] as const
  ) {
    test(`${shell} completes "${line.replace(SERVICE.slice(0, -1), "SERVICE")}"`, async () => {
      const [asked, wanted] = [line, want].map((text) => text.replace("DIR", directory));
      const found = await completed(shell, asked ?? "");
      const isThere = found.some((text) => text.split(" ").includes(wanted ?? ""));
      assert.ok(isThere, `${wanted} is not in ${JSON.stringify(found)}`);
    });
  }
}
