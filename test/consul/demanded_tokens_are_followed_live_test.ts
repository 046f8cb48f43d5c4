import { CONSUL } from "../kit/consul.ts";
import { demandedTokens } from "../stories/demanded_tokens.ts";

demandedTokens(CONSUL);
