import sys,torch
sys.path.insert(0,"src")
from anisoscope.lab.corpus import embedded_corpus
from anisoscope.lab.tokenizer import train_tokenizer
t=embedded_corpus()
for v in (512,1024,2048): torch.save(torch.tensor(train_tokenizer(t,v).encode(t).ids),f"/tmp/ids{v}.pt")
