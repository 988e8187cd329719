from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
name = 'class.py.jinja'

def root(context, missing=missing):
    resolve = context.resolve_or_missing
    undefined = environment.undefined
    concat = environment.concat
    cond_expr_undefined = Undefined
    if 0: yield None
    l_0_class_name = resolve('class_name')
    l_0_summary = resolve('summary')
    l_0_about = resolve('about')
    l_0_causal = resolve('causal')
    l_0_constructor = resolve('constructor')
    l_0_reset = resolve('reset')
    l_0_forward = resolve('forward')
    l_0_new_cache = resolve('new_cache')
    l_0_energy = resolve('energy')
    l_0_representation = resolve('representation')
    l_0_positives = resolve('positives')
    l_0_methods = resolve('methods')
    pass
    yield 'class '
    yield str((undefined(name='class_name') if l_0_class_name is missing else l_0_class_name))
    yield '(§nn.Module):\n    """'
    yield str((undefined(name='summary') if l_0_summary is missing else l_0_summary))
    yield '\n'
    if (undefined(name='about') if l_0_about is missing else l_0_about):
        pass
        yield '\n'
        for l_1_line in (undefined(name='about') if l_0_about is missing else l_0_about):
            _loop_vars = {}
            pass
            yield '    '
            yield str(l_1_line)
            yield '\n'
        l_1_line = missing
        yield '    """\n'
    else:
        pass
        yield '    """\n'
    yield '\n    causal = '
    yield str((undefined(name='causal') if l_0_causal is missing else l_0_causal))
    yield '  # '
    yield str(('token i of the result reads no later token' if (undefined(name='causal') if l_0_causal is missing else l_0_causal) else 'tokens may read later tokens'))
    yield '\n\n'
    yield str(environment.getattr((undefined(name='constructor') if l_0_constructor is missing else l_0_constructor), 'signature'))
    yield '\n        '
    yield str(environment.getattr((undefined(name='constructor') if l_0_constructor is missing else l_0_constructor), 'super'))
    yield '\n'
    for l_1_line in environment.getattr((undefined(name='constructor') if l_0_constructor is missing else l_0_constructor), 'lines'):
        _loop_vars = {}
        pass
        yield '        '
        yield str(l_1_line)
        yield '\n'
    l_1_line = missing
    yield '        self.reset_parameters()\n\n    def reset_parameters(self) -> None:\n        """Draw the parameters afresh."""\n'
    for l_1_line in (undefined(name='reset') if l_0_reset is missing else l_0_reset):
        _loop_vars = {}
        pass
        yield '        '
        yield str(l_1_line)
        yield '\n'
    l_1_line = missing
    yield '\n'
    yield str(environment.getattr((undefined(name='forward') if l_0_forward is missing else l_0_forward), 'signature'))
    yield '\n'
    yield str(environment.getattr((undefined(name='forward') if l_0_forward is missing else l_0_forward), 'summary'))
    yield '\n'
    for l_1_line in environment.getattr((undefined(name='forward') if l_0_forward is missing else l_0_forward), 'checks'):
        _loop_vars = {}
        pass
        yield '        '
        yield str(l_1_line)
        yield '\n'
    l_1_line = missing
    if environment.getattr((undefined(name='forward') if l_0_forward is missing else l_0_forward), 'low'):
        pass
        yield '        '
        yield str(environment.getattr((undefined(name='forward') if l_0_forward is missing else l_0_forward), 'low'))
        yield ' = §_product_dtype('
        yield str(environment.getattr((undefined(name='forward') if l_0_forward is missing else l_0_forward), 'first'))
        yield ')\n'
    yield '        with §_autocast_off('
    yield str(environment.getattr((undefined(name='forward') if l_0_forward is missing else l_0_forward), 'first'))
    yield '):\n'
    for l_1_line in environment.getattr((undefined(name='forward') if l_0_forward is missing else l_0_forward), 'branches'):
        _loop_vars = {}
        pass
        yield '            '
        yield str(l_1_line)
        yield '\n'
    l_1_line = missing
    if environment.getattr((undefined(name='forward') if l_0_forward is missing else l_0_forward), 'tokens'):
        pass
        yield '        if cache is None:\n            return result\n        cache.tokens += '
        yield str(environment.getattr((undefined(name='forward') if l_0_forward is missing else l_0_forward), 'tokens'))
        yield '\n        return result, cache\n'
    yield '\n'
    yield str(environment.getattr((undefined(name='new_cache') if l_0_new_cache is missing else l_0_new_cache), 'signature'))
    yield '\n        """'
    yield str(environment.getattr((undefined(name='new_cache') if l_0_new_cache is missing else l_0_new_cache), 'summary'))
    yield '"""\n        '
    yield str(environment.getattr((undefined(name='new_cache') if l_0_new_cache is missing else l_0_new_cache), 'body'))
    yield '\n\n'
    yield str(environment.getattr((undefined(name='energy') if l_0_energy is missing else l_0_energy), 'signature'))
    yield '\n'
    yield str(environment.getattr((undefined(name='energy') if l_0_energy is missing else l_0_energy), 'summary'))
    yield '\n'
    for l_1_line in environment.getattr((undefined(name='energy') if l_0_energy is missing else l_0_energy), 'checks'):
        _loop_vars = {}
        pass
        yield '        '
        yield str(l_1_line)
        yield '\n'
    l_1_line = missing
    yield '        with §_autocast_off('
    yield str(environment.getattr((undefined(name='energy') if l_0_energy is missing else l_0_energy), 'first'))
    yield '):\n'
    for (l_1_name, l_1_call) in environment.getattr((undefined(name='energy') if l_0_energy is missing else l_0_energy), 'named'):
        _loop_vars = {}
        pass
        yield '            if name == "'
        yield str(l_1_name)
        yield '":\n                '
        yield str(l_1_call)
        yield '\n'
    l_1_name = l_1_call = missing
    if environment.getattr((undefined(name='energy') if l_0_energy is missing else l_0_energy), 'named'):
        pass
        yield '        raise §ValueError(f"name: expected '
        yield str(environment.getattr((undefined(name='energy') if l_0_energy is missing else l_0_energy), 'names'))
        yield ', got {name!r}")\n'
    else:
        pass
        yield '            '
        yield str(environment.getattr((undefined(name='energy') if l_0_energy is missing else l_0_energy), 'only'))
        yield '\n'
    yield '\n    def extra_repr(self) -> §str:\n'
    for l_1_line in (undefined(name='representation') if l_0_representation is missing else l_0_representation):
        _loop_vars = {}
        pass
        yield '        '
        yield str(l_1_line)
        yield '\n'
    l_1_line = missing
    for l_1_positive in (undefined(name='positives') if l_0_positives is missing else l_0_positives):
        _loop_vars = {}
        pass
        yield '\n    @§property\n    def '
        yield str(environment.getattr(l_1_positive, 'name'))
        yield '(self) -> §Tensor:\n        """'
        yield str(environment.getattr(l_1_positive, 'summary'))
        yield '"""\n        return '
        yield str(environment.getattr(l_1_positive, 'value'))
        yield '\n'
    l_1_positive = missing
    for l_1_method in (undefined(name='methods') if l_0_methods is missing else l_0_methods):
        _loop_vars = {}
        pass
        yield '\n'
        yield str(l_1_method)
        yield '\n'
    l_1_method = missing

blocks = {}
debug_info = '5=24&6=26&7=28&9=31&10=35&17=43&19=47&20=49&21=51&22=55&28=59&29=63&32=67&33=69&34=71&35=75&37=78&38=81&40=86&41=88&42=92&44=95&47=98&51=101&52=103&53=105&55=107&56=109&57=111&58=115&60=119&61=121&62=125&63=127&65=130&66=133&68=138&72=141&73=145&75=148&78=152&79=154&80=156&82=159&84=163'