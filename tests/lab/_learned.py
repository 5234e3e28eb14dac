import sys
sys.path.insert(0,"src")
from anisoscope.lab import model as M
import torch
from torch import nn
M.Attention._rotate=lambda s,x:x
init=M.Transformer.__init__
def new(self,c):
    init(self,c); self.pos=nn.Parameter(torch.randn(c.length,c.width)*.02)
def fwd(self,ids):
    h=self.tokens(ids)+self.pos[:ids.shape[1]]
    for b in self.blocks: h=b(h)
    return self.head(self.norm(h))
M.Transformer.__init__=new; M.Transformer.forward=fwd
exec(open("tests/lab/_sweep.py").read())
