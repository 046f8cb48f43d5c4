import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { demandedTokens } from "../../stories/demanded_tokens.ts";

demandedTokens(DevMesh);
